"""Networks over word vectors, as backbones: their placements, and their classes as transformers finds them.

Entry points name them here.
"""

from __future__ import annotations

from dataclasses import replace

import transformers

from attribune.backbones.placement import Placement
from attribune_lab.backbones.hierarchical import HierarchicalConfig, HierarchicalModel
from attribune_lab.backbones.models import BiLSTMCNNModel, BiLSTMModel, CNNModel, WordModel
from attribune_lab.backbones.options import (
    BiLSTMCNNOptions,
    BiLSTMOptions,
    CNNOptions,
    HierarchicalOptions,
    TangOptions,
)
from attribune_lab.backbones.tang import TangConfig, TangModel
from attribune_lab.backbones.words import SentenceTokenizer

__all__ = [
    "BILSTM",
    "BILSTM_CNN",
    "CNN",
    "HIERARCHICAL",
    "TANG",
    "BiLSTMCNNOptions",
    "BiLSTMOptions",
    "CNNOptions",
    "HierarchicalOptions",
    "TangOptions",
]

CNN = Placement(
    model_types=("word-cnn",),
    layers="filters",
    has_start_token=False,
    reads_ahead=True,
    no_extra_attention="they have no attention",
    pooling="max",
    is_pretrained=False,
)
TANG = replace(CNN, model_types=("word-tang-cnn",), reads_ahead=False, states="text", pooling="mean")
BILSTM = replace(
    CNN,
    model_types=("word-bilstm",),
    layers="recurrent",
    reads_ahead=False,
    word_proj="projection",
    recurrent="recurrent",
)
BILSTM_CNN = replace(CNN, model_types=("word-bilstm-cnn",), layers="recurrent", reads_ahead=False)
HIERARCHICAL = replace(
    CNN,
    model_types=("word-hierarchical",),
    layers="branches.*",
    reads_ahead=False,
    states="sentence",
    word_pool="word_pool",
    pooling="mean",
)

_MODELS: tuple[type[WordModel], ...] = (CNNModel, TangModel, BiLSTMModel, BiLSTMCNNModel, HierarchicalModel)
for _model in _MODELS:
    transformers.AutoConfig.register(_model.config_class.model_type, _model.config_class, exist_ok=True)
    transformers.AutoModel.register(_model.config_class, _model, exist_ok=True)
for _config in (HierarchicalConfig, TangConfig):
    transformers.AutoTokenizer.register(_config, SentenceTokenizer, exist_ok=True)
