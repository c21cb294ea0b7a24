"""Systems for documents that are longer than what a backbone reads at once."""

import attribune.models.chunk_encoders  # noqa: F401 (it loads these, by their entry points)
