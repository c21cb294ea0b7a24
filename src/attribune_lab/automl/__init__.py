"""The baseline ``automl``: its options, the model that it trains, and the search."""

import attribune.models.baselines  # noqa: F401 (it loads the options, by their entry point)
