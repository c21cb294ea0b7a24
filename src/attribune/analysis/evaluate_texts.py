"""Evaluation of what a run writes: its texts against those of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from attribune.analysis.evaluate import AS_GIVEN, HIDDEN
from attribune.core.arguments import checked_arguments
from attribune.core.door import as_call
from attribune.core.wording import counted
from attribune.data.clusters import clustered
from attribune.data.file_options import Reading
from attribune.data.tables import with_reading
from attribune.errors import numbered_in_file
from attribune.metrics.bootstrap import Interval
from attribune.metrics.metric import Metric
from attribune.metrics.results import Comparison, ResultRow, compare_metrics, intervals
from attribune.metrics.tables import comparison_lines, html_blocks, table_cells, text_table
from attribune.metrics.texts import require_text_metrics, text_metrics
from attribune.models.predictor import Quantisation
from attribune.models.writer import Decoding, Writer
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run
from attribune.tasks.capabilities import GENERATE, require


@dataclass(frozen=True, kw_only=True, repr=False)
class TextEvaluation:
    """The texts that a run wrote for the rows of a table, scored against the texts of these rows.

    Args:
        labelled: the rows with a text.
        prompts: (n,), empty for a run without prompts.
        attributes: values of each row by attribute that the run reads.
        references: (n,), the texts of the table.
        written: ``as given`` and, for a run that reads attributes, ``attributes hidden``, to the texts of each row.
        notes: messages for the user about rows and attributes.
    """

    labelled: LabelledRows
    prompts: list[str]
    attributes: dict[str, list[Any]]
    references: list[str]
    written: dict[str, list[list[str]]]
    notes: list[str]

    @property
    def rows(self) -> int:
        """Number of rows with a text."""
        return len(self.references)

    @cached_property
    def scores(self) -> dict[str, dict[str, Metric]]:
        """What `text_metrics` returns for the texts of each way of writing, as in `written`."""
        return {
            name: clustered(text_metrics(texts, self.references), self.labelled.clusters)
            for name, texts in self.written.items()
        }

    @cached_property
    def metrics(self) -> dict[str, dict[str, Interval]]:
        """The same with their intervals."""
        return {name: intervals(metrics) for name, metrics in self.scores.items()}

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The difference that the attributes make to each metric; empty for a run that reads none."""
        if HIDDEN not in self.scores:
            return []
        given, hidden = self.scores[AS_GIVEN], self.scores[HIDDEN]
        return [compare_metrics(given[name], hidden[name], names=(AS_GIVEN, HIDDEN), part="") for name in given]

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each text, as `generate` does, with ``reference`` and, if there is one, ``hidden``.

        ``hidden`` is the text that was written with the attributes hidden.
        """
        hidden = self.written.get(HIDDEN)
        found = []
        for row, texts in enumerate(self.written[AS_GIVEN]):
            for sample, text in enumerate(texts):
                record = {
                    "row": int(self.labelled.numbers[row]) + 1,
                    "sample": sample + 1,
                    "prompt": self.prompts[row],
                    "attributes": {name: values[row] for name, values in self.attributes.items()},
                    "text": text,
                    "reference": self.references[row],
                }
                found.append(record if hidden is None else record | {"hidden": hidden[row][sample]})
        return found

    def text(self) -> str:
        """Return the table of the metrics and the differences, for a terminal."""
        lines = "\n".join(comparison_lines(self.comparisons))
        return "\n\n".join(filter(None, [f"{self._caption()}\n{text_table(self._table())}", lines]))

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        lines = comparison_lines(self.comparisons)
        return html_blocks([(self._caption(), table_cells(self._table())), *((line, []) for line in lines)])

    def _caption(self) -> str:
        several = len(self.written[AS_GIVEN][0])
        return f"{counted(self.rows, 'row')}{f', {several} texts for each' if several > 1 else ''}"

    def _table(self) -> list[ResultRow]:
        return [ResultRow(name=name, metrics=metrics) for name, metrics in self.metrics.items()]


@checked_arguments
def evaluate_texts(
    run: str | Path,
    data: Any = None,
    *,
    decoding: Decoding | None = None,
    backbone: str | Path | None = None,
    quantise: Quantisation | None = None,
    **reading: Unpack[Reading],
) -> TextEvaluation:
    """Write a text for each row with a run of the task ``generation``, and score it against the text of the row.

    Each text is written with the attributes of its row and, beside it, with all of them hidden.

    Args:
        data: rows with texts, anything `read_table` takes; None for the run's own test rows.
        backbone: new location of the backbone's weights, if they were moved.
        quantise: ``int8`` computes in int8, on CPUs; see `attribune.models.predictor.quantised`.
        **reading: how files are read, as in `read_table`.

    Raises:
        ConfigError: without the packages of the extra ``generation``, or for a run of another task.
        AttribuneError: naming file, row or column and the cure.
    """
    require_text_metrics()
    data = with_reading(data, reading)
    recipe, predictor = load_run(run, backbone=backbone, quantise=quantise)
    require(predictor.task, GENERATE, run=run, cure=as_call("evaluate"))
    labelled = LabelledRows.to_score(run, recipe, predictor, data)
    writer, text, rows = Writer.of(predictor), predictor.text_input, labelled.rows
    attributes = {name: list(rows[name]) for name in writer.attributes}
    ways = {AS_GIVEN: attributes} | ({HIDDEN: {}} if attributes else {})
    written, notes = {}, labelled.notes
    with numbered_in_file(labelled.numbers, labelled.source):
        prompts = text.read_prompts(rows) if text.prompt else [""] * len(rows)
        for name, values in ways.items():
            written[name], report = writer.write(prompts, values, decoding)
            notes = [*notes, *(report.lines() if values else [])]
    return TextEvaluation(
        labelled=labelled,
        prompts=prompts,
        attributes=attributes,
        references=text.read(rows),
        written=written,
        notes=notes,
    )
