"""Attribune: pretrained language models that read the metadata of a text beside the text.

schema = Schema.fit(table, [Categorical("user"), MultiLabel("tags", separator="|")])
model = AttributeModel.build(backbone, schema, task=Classification(classes=5))
"""

from __future__ import annotations

import logging
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attribune.backbone import load_tokenizer
    from attribune.configuration import AttributeConfig
    from attribune.data.collator import Collator
    from attribune.data.encoding import encode, encode_with_report
    from attribune.data.splits import split_table
    from attribune.data.tables import read_table
    from attribune.data.texts import TextInput
    from attribune.data.windows import Chunks, Head, HeadTail
    from attribune.errors import AttribuneError, AttribuneWarning, ConfigError, DataError, ModelFolderError
    from attribune.evaluation.predict import predict
    from attribune.evaluation.run import compare_runs, evaluate
    from attribune.explaining.run import explain
    from attribune.exporting.run import export
    from attribune.generation.model import AttributeGenerator
    from attribune.generation.run import generate
    from attribune.generation.writing import Decoding, Writer
    from attribune.loading import load_model
    from attribune.methods import (
        Adapter,
        AttentionBias,
        Chim,
        Combined,
        ConcatText,
        ConcatWord,
        E2ln,
        Injector,
        Maa,
        Plain,
        Pln,
        Plora,
        Poly,
        TinyMaa,
        Tokens,
        Upa,
    )
    from attribune.model import AttributeModel
    from attribune.prediction import Predictor
    from attribune.recipe import Recipe
    from attribune.schema import Schema
    from attribune.schema.attributes import Categorical, MultiLabel, Numeric
    from attribune.tasks import Aspects, Classification, Generation, Rating, Regression
    from attribune.training.folder import load_run
    from attribune.training.run import train

__all__ = [
    "Adapter",
    "Aspects",
    "AttentionBias",
    "AttribuneError",
    "AttribuneWarning",
    "AttributeConfig",
    "AttributeGenerator",
    "AttributeModel",
    "Categorical",
    "Chim",
    "Chunks",
    "Classification",
    "Collator",
    "Combined",
    "ConcatText",
    "ConcatWord",
    "ConfigError",
    "DataError",
    "Decoding",
    "E2ln",
    "Generation",
    "Head",
    "HeadTail",
    "Injector",
    "Maa",
    "ModelFolderError",
    "MultiLabel",
    "Numeric",
    "Plain",
    "Pln",
    "Plora",
    "Poly",
    "Predictor",
    "Rating",
    "Recipe",
    "Regression",
    "Schema",
    "TextInput",
    "TinyMaa",
    "Tokens",
    "Upa",
    "Writer",
    "compare_runs",
    "encode",
    "encode_with_report",
    "evaluate",
    "explain",
    "export",
    "generate",
    "load_model",
    "load_run",
    "load_tokenizer",
    "predict",
    "read_table",
    "split_table",
    "train",
]

# Imported when first asked for: torch and transformers take seconds, which `attribune --help` need not wait for.
_HOMES = {
    "Adapter": "attribune.methods",
    "Aspects": "attribune.tasks",
    "AttentionBias": "attribune.methods",
    "AttribuneError": "attribune.errors",
    "AttribuneWarning": "attribune.errors",
    "AttributeConfig": "attribune.configuration",
    "AttributeGenerator": "attribune.generation.model",
    "AttributeModel": "attribune.model",
    "Categorical": "attribune.schema.attributes",
    "Chim": "attribune.methods",
    "Chunks": "attribune.data.windows",
    "Classification": "attribune.tasks",
    "Collator": "attribune.data.collator",
    "Combined": "attribune.methods",
    "ConcatText": "attribune.methods",
    "ConcatWord": "attribune.methods",
    "ConfigError": "attribune.errors",
    "DataError": "attribune.errors",
    "Decoding": "attribune.generation.writing",
    "E2ln": "attribune.methods",
    "Generation": "attribune.tasks",
    "Head": "attribune.data.windows",
    "HeadTail": "attribune.data.windows",
    "Injector": "attribune.methods",
    "Maa": "attribune.methods",
    "ModelFolderError": "attribune.errors",
    "MultiLabel": "attribune.schema.attributes",
    "Numeric": "attribune.schema.attributes",
    "Plain": "attribune.methods",
    "Pln": "attribune.methods",
    "Plora": "attribune.methods",
    "Poly": "attribune.methods",
    "Predictor": "attribune.prediction",
    "Rating": "attribune.tasks",
    "Recipe": "attribune.recipe",
    "Regression": "attribune.tasks",
    "Schema": "attribune.schema",
    "TextInput": "attribune.data.texts",
    "TinyMaa": "attribune.methods",
    "Tokens": "attribune.methods",
    "Upa": "attribune.methods",
    "Writer": "attribune.generation.writing",
    "compare_runs": "attribune.evaluation.run",
    "encode": "attribune.data.encoding",
    "encode_with_report": "attribune.data.encoding",
    "evaluate": "attribune.evaluation.run",
    "generate": "attribune.generation.run",
    "load_model": "attribune.loading",
    "explain": "attribune.explaining.run",
    "export": "attribune.exporting.run",
    "load_run": "attribune.training.folder",
    "load_tokenizer": "attribune.backbone",
    "predict": "attribune.evaluation.predict",
    "read_table": "attribune.data.tables",
    "split_table": "attribune.data.splits",
    "train": "attribune.training.run",
}

logging.getLogger(__name__).addHandler(logging.NullHandler())  # it is for the program to show the log

__version__ = metadata.version("attribune")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attribune' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
