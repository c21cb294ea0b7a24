"""How good a model is, and how certain that is: bootstrap intervals, paired comparison, tables."""

from attribune.evaluation.bootstrap import Interval, PairedResult, interval, paired
from attribune.evaluation.report import ResultRow, format_interval, markdown_table, text_table

__all__ = [
    "Interval",
    "PairedResult",
    "ResultRow",
    "format_interval",
    "interval",
    "markdown_table",
    "paired",
    "text_table",
]
