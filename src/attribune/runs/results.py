"""The results of a run: what ``metrics.json`` holds."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, ValidationError, model_validator

from attribune.core.door import as_argument, written_to_file
from attribune.core.files import read_json
from attribune.core.wording import counted
from attribune.errors import ModelFolderError
from attribune.findings import Finding
from attribune.metrics.bootstrap import Interval
from attribune.metrics.results import (
    AttributeUse,
    Comparison,
    ResultRow,
    Scored,
    compare,
    compare_metrics,
    condition_of,
    intervals,
)
from attribune.metrics.tables import ResultDict, comparison_lines, html_blocks, table_cells, text_table
from attribune.runs.attribute_gains import AttributesTogether, CountGain, attribute_gains, gains_by_count
from attribune.runs.training_record import SavedRecord, TrainingRecord
from attribune.runs.verdict import Calibration, Verdict, run_verdict
from attribune.tasks import Task

if TYPE_CHECKING:
    from attribune.runs.recipe import Recipe

_PACKAGES = ("attribune", "torch", "transformers", "datasets", "scikit-learn")
_HIDDEN, _SHUFFLED = ", attributes hidden", ", attributes shuffled"


class ModelResult(SavedRecord):
    """A model, or a baseline, and its metrics: part (``validation``, ``test``) to metric name to interval.

    Args:
        parts: metrics over rows.
        judgements: metrics over the texts that several people judged, if there are any.
    """

    name: str
    condition: AttributeUse
    parts: dict[str, dict[str, Interval]]
    judgements: dict[str, dict[str, Interval]] = Field(default_factory=dict)

    @property
    def attributes_hidden(self) -> bool:
        """Whether the model reads attributes, but was scored without them."""
        return self.condition in ("hidden", "shuffled_hidden")

    @model_validator(mode="before")
    @classmethod
    def _condition_by_name(cls, result: Any) -> Any:
        """Files of version 0.1 have the condition in the name only."""
        if not isinstance(result, Mapping) or "condition" in result:
            return result
        name = str(result.get("name"))
        return {**result, "condition": condition_of(shuffled=_SHUFFLED in name, hidden=name.endswith(_HIDDEN))}


class Environment(SavedRecord):
    """The machine and the versions of a training; `device` is the name of the GPU, or ``cpu``."""

    versions: dict[str, str]
    python: str
    machine: str
    device: str
    threads: int
    precision: str


class FindingRecord(SavedRecord):
    """A `Finding` as it was written, with its text, since another version may know codes that this one does not."""

    code: str
    values: dict[str, Any]
    text: str


class RunResults(SavedRecord):
    """All results of a run.

    Args:
        task: argument of `task_from_dict`.
        main_metric: the metric by which models are compared.
        rows: number of rows of each part.
        models: the trained model first, then the ones it is compared with.
        comparisons: of the first model with each of the others, by the main metric.
        proper: the same by the proper score of the task, where there is one beside the main metric.
        training: of the first model.
        verdict: what all of it shows, see `Verdict`; None in early files.
        notes: what is worth saying of the rows, in sentences.
        findings: the sentences of the verdict, and then the notes, as data; fewer or none in early files.
        metrics_note: what the metrics are of, where one prediction has several forms.
        chosen_by: sentences about the bake-off that chose the method, if one did.
    """

    method: str
    task: dict[str, Any]
    main_metric: str
    rows: dict[str, int]
    models: list[ModelResult] = Field(alias="results", min_length=1)
    comparisons: list[Comparison]
    training: TrainingRecord
    notes: list[str]
    environment: Environment
    verdict: Verdict | None = None
    findings: list[FindingRecord] = Field(default_factory=list)
    metrics_note: str = ""
    chosen_by: list[str] = Field(default_factory=list)
    proper: list[Comparison] = Field(default_factory=list)

    @classmethod
    def from_dict(cls, record: Any, *, source: str) -> Self:
        """Read the result of `to_dict`, also of an earlier version; ModelFolderError for anything else."""
        try:
            return cls.model_validate(record)
        except ValidationError as error:
            raise ModelFolderError(
                f"{source} does not hold the results of a run: restore the file, or remove it and repeat the training "
                f"with {as_argument('resume', True, at='train')}"
            ) from error

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read ``metrics.json``; ModelFolderError for a file that is missing or damaged."""
        return cls.from_dict(read_json(path, what="record of results"), source=str(path))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``metrics.json`` holds them."""
        return ResultDict(self.model_dump(by_alias=True, exclude_unset=True), text=self.text(), html=self._repr_html_())

    def text(self) -> str:
        """Return the tables of the metrics, the comparisons, the cost and the verdict, for a terminal."""
        blocks = [f"{caption}\n{text_table(rows)}" for caption, rows in self.tables(note=self._note)]
        verdict = "" if self.verdict is None else self.verdict.text()
        parts = ["\n".join(comparison_lines(self.comparisons)), "\n".join(self.chosen_by), self._cost(), verdict]
        return "\n\n".join([*blocks, *filter(None, parts)])

    def __repr__(self) -> str:
        return self.text()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        tables = [(caption, table_cells(rows)) for caption, rows in self.tables(note=self._note)]
        verdict = [] if self.verdict is None else self.verdict.sentences()
        lines = [*comparison_lines(self.comparisons), *self.chosen_by, self._cost(), *verdict]
        return html_blocks([*tables, *((line, []) for line in lines)])

    def tables(self, *, note: str = "") -> list[tuple[str, list[ResultRow]]]:
        """Return the tables that have rows, with their captions, to which a note is added."""
        parts = [part for part in ("validation", "test") if part in self.rows]
        tables = [
            table
            for part in parts
            for table in (
                (f"{part}, {counted(self.rows[part], 'row')}{note}", self.table(part)),
                (f"{part}, texts with several judgements", self.judgements(part)),
            )
        ]
        return [(caption, rows) for caption, rows in tables if rows]

    @property
    def _note(self) -> str:
        return f" ({self.metrics_note})" if self.metrics_note else ""

    def _cost(self) -> str:
        sizes = self.training.parameters
        return (
            f"{sizes.trained:,} of {sizes.total:,} parameters trained, {sizes.stored:,} stored "
            f"({sizes.stored_bytes / 1e6:.1f} MB); trained in {self.training.seconds:,.0f} s"
        )

    def table(self, part: str) -> list[ResultRow]:
        """Return the rows of the table of one part; none where nothing was scored on it."""
        return [ResultRow(name=one.name, metrics=one.parts[part]) for one in self.models if part in one.parts]

    def judgements(self, part: str) -> list[ResultRow]:
        """Return the rows of the table of texts that several people judged; none where there are none."""
        return [ResultRow(name=one.name, metrics=one.judgements[part]) for one in self.models if part in one.judgements]


def _judgements(model: Scored) -> dict[str, Any]:
    """Return the field of metrics over texts, if there are any."""
    found = {part: intervals(metrics) for part, metrics in model.judgements.items() if metrics}
    return {"judgements": found} if found else {}


def _gains(scored: Sequence[Scored], *, metric: str, part: str) -> list[CountGain]:
    """Return what the attributes change by training rows of a value, where the model was scored without them too."""
    model = scored[0]
    hidden = next((other for other in scored if other.condition == "hidden"), None)
    if hidden is None:
        return []
    return gains_by_count(model.metrics[part][metric], hidden.metrics[part][metric], model.counts.get(part, {}))


def _proper(scored: Sequence[Scored], *, metric: str, part: str) -> list[Comparison]:
    """Compare the first model with each of the others by the proper score, unless that is the main metric."""
    model, *others = scored
    first = model.proper.get(part)
    if first is None or first.name == metric:
        return []
    return [
        compare_metrics(first, other.proper[part], names=(model.name, other.name), part=part)
        for other in others
        if part in other.proper
    ]


def _calibration(training: TrainingRecord, model: Scored, part: str) -> Calibration | None:
    """Return what the temperature of a model changed, if it has one."""
    if training.temperature is None or part not in model.uncalibrated:
        return None
    after = model.proper[part]
    return Calibration(
        temperature=training.temperature,
        metric=after.name,
        part=part,
        before=model.uncalibrated[part],
        after=after.value(),
    )


def run_results(
    recipe: Recipe,
    task: Task,
    *,
    rows: Mapping[str, int],
    scored: Sequence[Scored],
    training: TrainingRecord,
    found: Sequence[Finding],
) -> RunResults:
    """Compute the intervals of a trained run, and its comparisons on the test rows, or else the validation rows.

    Args:
        recipe: with the precision resolved.
        rows: number of rows of each part.
        scored: the trained model first, then the ones it is compared with.
        found: what is worth saying of the rows.
    """
    import torch  # here, since this module is also read without it

    models = [
        ModelResult(
            name=model.name,
            condition=model.condition,
            parts={part: intervals(metrics) for part, metrics in model.metrics.items()},
            **_judgements(model),
        )
        for model in scored
    ]
    part, metric = "test" if "test" in rows else "validation", task.main_metric
    comparisons = compare(scored, metric=metric, part=part)
    proper = _proper(scored, metric=metric, part=part)
    verdict = run_verdict(
        recipe,
        training,
        metric=metric,
        comparisons=comparisons,
        conditions={model.name: model.condition for model in scored},
        proper=proper,
        by_attribute=attribute_gains(scored[0].hidden.alone),
        together=AttributesTogether.of(scored[0].hidden.together),
        by_count=_gains(scored, metric=metric, part=part),
        figures={model.name: model.parts[part][metric].value for model in models if part in model.parts},
        calibration=_calibration(training, scored[0], part),
        blend=training.blend,
        no_blend=training.no_blend,
    )
    with written_to_file():
        findings = [FindingRecord(**one.to_dict()) for one in (*verdict.findings(), *found)]
    results = RunResults(
        method=str(recipe.method["name"]),
        task=task.to_dict(),
        main_metric=metric,
        rows=dict(rows),
        results=models,
        comparisons=comparisons,
        proper=proper,
        training=training,
        verdict=verdict,
        findings=findings,
        notes=[one.text for one in found],
        environment=Environment(
            versions={name: metadata.version(name) for name in _PACKAGES},
            python=platform.python_version(),
            machine=platform.machine(),
            device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            threads=torch.get_num_threads(),
            precision=recipe.training.precision,
        ),
    )
    return results.model_copy(update={"metrics_note": task.metrics_note}) if task.metrics_note else results
