"""What was found of a table or a run, as data, with the sentences that say it."""

from attribune.findings.finding import CODES, Finding, meanings, said
from attribune.findings.tables import rows_without_text
from attribune.findings.trainings import if_labels, outside_scale
from attribune.findings.verdicts import counting_models

__all__ = [
    "CODES",
    "Finding",
    "counting_models",
    "if_labels",
    "meanings",
    "outside_scale",
    "rows_without_text",
    "said",
]
