"""Backbones without pretraining: networks over word vectors, trained in full."""

import attribune.backbones.untrained  # noqa: F401 (it loads their options, by entry points)
