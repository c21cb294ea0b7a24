"""Values added to a run without training it again, and values taken out of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from families import BERT_METHODS
from trained_runs import ROWS as OLD
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.core.checksums import CHECKSUMS, write_checksums
from attribune.core.files import read_json
from attribune.errors import ConfigError, ModelFolderError
from attribune.methods import METHODS
from attribune.models.auto import revised_model
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run
from attribune.values.enrol import enrol
from attribune.values.forget import forget
from attribune.values.learning import EnrolSettings, ValueLearner
from attribune.values.reading import NewValues
from attribune.values.record import ENROLMENTS, enrolments
from attribune.values.traces import Wanted, search_files

pytestmark = pytest.mark.slow

NEW = small_runs.reviews(60, seed=9, users=12)  # users 7 to 11 are new
KNOWN = {f"u{number}" for number in range(7)}
ATTRIBUTES = ("--multi-label", "tags:;", "--numeric", "price")
TUNED = ("--tuning", "frozen", "--set", "training.learning_rate=0.05")  # predictions depend on the user
ONE_STEP: dict[str, Any] = {"steps": 1}


@pytest.fixture
def run(trained_runs: TrainedRuns, tmp_path: Path) -> Path:
    """A copy of an Injector's run."""
    return trained_runs.copy(trained_runs("injector", *ATTRIBUTES, "--no-baselines", *TUNED), tmp_path / "injector")


@pytest.fixture
def compared(trained_runs: TrainedRuns, tmp_path: Path) -> Path:
    """A copy of one with others beside it."""
    others = ("--compare", "none", "linear")
    return trained_runs.copy(trained_runs("injector", *ATTRIBUTES, "--no-baselines", *TUNED, *others), tmp_path / "run")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return small_runs.write_csv(tmp_path / "new.csv", NEW)


def files_with_value(value: str, folder: Path) -> list[Path]:
    """The files below a folder that name a value, those of the run among them."""
    return search_files(Wanted([value]), folder).places


def owners(run: Path) -> list[str]:
    """The users of the rows whose predictions are stored."""
    return [OLD[row]["user"] for part in ("validation", "test") for row in small_runs.scored_rows(run, part)]


def table(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in ("text", "user", "tags", "price")}


def logits(run: Path, rows: list[dict[str, Any]]) -> Any:
    return load_run(run)[1].logits(table(rows))[0]


# Adding


def test_new_values_become_known_and_old_predictions_stay(run: Path, new: Path) -> None:
    old = [row for row in NEW if row["user"] in KNOWN]
    strangers = [row for row in NEW if row["user"] == "u9"]
    before, unknown = logits(run, old), logits(run, strangers)
    found = enrol(run, new)
    assert {(value.attribute, value.value) for value in found.values} == {("user", f"u{n}") for n in range(7, 12)}
    assert {value.value: value.rows for value in found.values}["u9"] == len(strangers)
    assert all(value.loss_after < value.loss_before for value in found.values)
    np.testing.assert_array_equal(logits(run, old), before)
    assert np.abs(logits(run, strangers) - unknown).max() > 1e-4
    assert load_run(run)[1].schema["user"].counts[-5:].tolist() == [value.rows for value in found.values]
    assert [value.value for value in enrolments(run)[0]] == [value.value for value in found.values]


def test_what_was_added_is_taken_back_to_the_bit(run: Path, new: Path, tmp_path: Path) -> None:
    settings = json.loads((run / "model" / "config.json").read_text())
    del settings["use_cache"]  # the loop that trained sets it, and nothing reads it
    (run / "model" / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    write_checksums(run / "model", read_json(run / "model" / CHECKSUMS, what="checksums")["files"])
    before = small_runs.file_bytes(run)
    few = small_runs.write_csv(tmp_path / "few.csv", [row for row in NEW if row["user"] in ("u1", "u8")])
    enrol(run, few)
    once = small_runs.file_bytes(run)
    enrol(run, new)
    assert len(enrolments(run)) == 2
    assert {value.value for value in enrol(run, undo=True).removed} == {"u7", "u9", "u10", "u11"}
    assert small_runs.file_bytes(run) == once
    enrol(run, undo=True)
    assert small_runs.file_bytes(run) == before
    with pytest.raises(ConfigError, match="there is nothing to undo"):
        enrol(run, undo=True)


@pytest.mark.exhaustive
def test_learning_repeats_and_stops_at_the_maximum(run: Path, new: Path, tmp_path: Path) -> None:
    """More steps end where few do, and a strong prior keeps values where the unknown is."""
    found, trials = {}, {"a": {}, "b": {}, "long": {"steps": 200}, "strong": {"prior": 1e4}}
    for name, settings in trials.items():
        copy = Path(shutil.copytree(run, tmp_path / "again" / name))
        enrol(copy, new, **settings)
        found[name] = logits(copy, NEW)
    unknown = logits(run, NEW)
    np.testing.assert_array_equal(found["a"], found["b"])
    moved = np.abs(found["long"] - unknown).max()
    assert np.abs(found["a"] - found["long"]).max() < 0.05 * moved
    assert np.abs(found["strong"] - unknown).max() < 0.05 * moved


def test_the_gradient_is_that_of_the_posterior(run: Path, new: Path) -> None:
    """Against central differences, in float64."""
    recipe, predictor = load_run(run)
    found = LabelledRows.read(recipe, predictor, str(new))
    values = NewValues(counts={}).with_rows(found, predictor.schema, None, min_rows=1)
    model = revised_model(RunFolder(run).model, values.revision)
    revised = Predictor(model, text_input=recipe.data.text_input())
    learner = ValueLearner(revised, found, values, EnrolSettings(prior=0.7, batch_size=7))
    model.double()
    for table in learner._tables:
        weight = 0.7 * predictor.model.config.prior_weight(table.attribute)  # type: ignore[attr-defined]
        assert table.prior == pytest.approx(weight)
        for name in ("start", "spread", "change"):
            setattr(table, name, getattr(table, name).detach().double())
        table.change.normal_(std=0.3).requires_grad_(True)

    def posterior() -> float:
        for table in learner._tables:
            table.write()
        with torch.no_grad():
            prior = sum(table.prior * float(table.change.square().sum()) for table in learner._tables)
            return float(learner._losses(learn=False).sum()) + prior / 2

    posterior()
    learner._gradients()
    for table in learner._tables:
        for place in [(0, 0), (2, 3), (4, 7)]:
            shift, change = 1e-2, table.change.detach()
            ends = []
            for sign in (1, -1):
                change[place] += sign * shift
                ends.append(posterior())
                change[place] -= sign * shift
            slope = (ends[0] - ends[1]) / (2 * shift)  # the model's loss is float32
            assert float(table.change.grad[place]) == pytest.approx(slope, rel=0.01, abs=1e-3)


WITH_VECTORS = [name for name in BERT_METHODS if METHODS[name]().uses_attributes]
# One for each way in which a method knows its values: texts, vectors that all rows read, layers, tokens, one vector.
WAYS = ("hcsc", "tokens")


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=[] if name in WAYS else pytest.mark.exhaustive) for name in WITH_VECTORS]
)
def test_every_method(method: str, trained_runs: TrainedRuns, new: Path, tmp_path: Path) -> None:
    """It learns vectors and leaves old predictions as they are, or says that it has none to learn."""
    learned = TUNED if method in ("injector", "pln") else ()
    run = trained_runs.copy(trained_runs(method, *ATTRIBUTES, "--no-baselines", *learned), tmp_path / "run")
    old = [row for row in NEW if row["user"] in KNOWN]
    before, everything = logits(run, old), small_runs.file_bytes(run)
    model = load_run(run)[1].model
    if model.memory is not None:
        assert [value.value for value in enrol(run, new).values]
        np.testing.assert_array_equal(logits(run, old), before)
    elif "user" not in model.values.owners().values():
        reason = "reads values as they are written" if method == "in-text" else "has no vector for each value"
        with pytest.raises(ConfigError, match=f"method '{method}' {reason}"):
            enrol(run, new)
        assert small_runs.file_bytes(run) == everything
    elif method == "hcsc":
        with pytest.raises(ConfigError, match="reads the vectors of all values for each row"):
            enrol(run, new)
        return
    else:
        found = enrol(run, new, steps=5)
        fallen = sum(value.rows * (value.loss_before - value.loss_after) for value in found.values)
        assert fallen > -1e-5, "where vectors hardly matter, rounding alone is left"
        np.testing.assert_array_equal(logits(run, old), before)
    forget(run, "user", ["u3"])
    others = [row for row in old if row["user"] != "u3"]
    kept = before[[row["user"] != "u3" for row in old]]
    np.testing.assert_allclose(logits(run, others), kept, atol=1e-6)
    assert "u3" not in load_run(run)[1].schema["user"].values


def test_attributes_and_rows_can_be_chosen(run: Path, tmp_path: Path) -> None:
    rows = [{**row, "tags": "noir;war" if number < 3 else row["tags"]} for number, row in enumerate(NEW)]
    data = small_runs.write_csv(tmp_path / "tags.csv", rows)
    found = enrol(run, data, attributes=["tags"])
    assert [(value.attribute, value.value, value.rows) for value in found.values] == [("tags", "noir", 3)]
    counts = {value: sum(row["user"] == value for row in NEW) for value in (f"u{n}" for n in range(7, 12))}
    found = enrol(run, data, min_rows=5)
    assert {value.value for value in found.values} == {value for value, count in counts.items() if count >= 5}
    assert found.skipped == {"user": sum(count < 5 for count in counts.values()), "tags": 0}


@pytest.mark.exhaustive
def test_a_service_knows_who_was_added(run: Path, new: Path) -> None:
    from attribune.apps.serve import load_models

    columns = {"text": ["a film"], "user": ["u9"], "tags": [None], "price": [None]}
    assert load_models([str(run)])["injector"].answer(columns)[0].unknown == {"user": ["u9"]}
    enrol(run, new, **ONE_STEP)
    assert load_models([str(run)])["injector"].answer(columns)[0].unknown == {}


# Forgetting


def test_a_value_is_in_no_file_any_more(compared: Path) -> None:
    run, state = compared, compared / "checkpoints" / "checkpoint-3"
    state.mkdir(parents=True)
    (state / "optimizer.pt").write_bytes(b"moments")
    (run / "model" / "notes.yaml").write_text("who: [u1, u3]\n")  # it goes with the model that is replaced
    places = {str(path.relative_to(run)) for path in files_with_value("u3", run)}
    assert {f"{part}model/schema.json" for part in ("", "compare/none/", "compare/linear/")} <= places
    others = [row for row in OLD if row["user"] != "u3"]
    runs = [run, *sorted((run / "compare").iterdir())]
    scored = {one: owners(one) for one in runs}
    before = [logits(one, others) for one in runs]
    unknown = [logits(one, [{**row, "user": "nobody"} for row in OLD if row["user"] == "u3"]) for one in runs]
    done = forget(run, "user", ["u3"])
    assert (len(done.models), done.checkpoints, state.exists()) == (3, [str(run / "checkpoints")], False)
    assert (done.places, files_with_value("u3", run)) == ([], [])
    assert done.predictions == sum(users.count("u3") for users in scored.values()) > 0
    for one, users in scored.items():
        assert owners(one) == [user for user in users if user != "u3"]
    for one, expected, stranger in zip(runs, before, unknown, strict=True):
        np.testing.assert_allclose(logits(one, others), expected, atol=1e-6)
        np.testing.assert_allclose(logits(one, [row for row in OLD if row["user"] == "u3"]), stranger, atol=1e-6)
    assert "u3" not in "".join(path.read_text() for path in run.rglob("*.jsonl"))
    assert main(["compare", str(run), str(run / "compare" / "linear")]) == 0


def test_the_vector_is_gone(run: Path) -> None:
    def tables() -> list[Any]:
        model = load_run(run)[1].model
        return [model.get_parameter(name).detach().clone() for name in sorted(model.values.tables())]

    number = int(load_run(run)[1].schema["user"].values.ids(["u3"])[0])
    before = tables()
    vector = before[0][number].numpy().tobytes()
    raw = (run / "model" / "model.safetensors").read_bytes()
    assert vector in raw
    forget(run, "user", ["u3"])
    assert vector not in (run / "model" / "model.safetensors").read_bytes()
    torch.testing.assert_close(tables()[0], torch.cat([before[0][:number], before[0][number + 1 :]]), atol=0, rtol=0)


def test_who_was_added_is_forgotten_too(run: Path, new: Path) -> None:
    enrol(run, new, **ONE_STEP)
    forget(run, "user", ["u9", "u2"])
    assert files_with_value("u9", run) == files_with_value("u2", run) == []
    assert "u9" not in {value.value for value in enrol(run, undo=True).removed}
    assert sorted(load_run(run)[1].schema["user"].values) == [f"u{n}" for n in (0, 1, 3, 4, 5, 6)]


def test_the_page_of_a_run_is_forgotten_with_the_value(run: Path, capsys: Any) -> None:
    page = run / "report.html"
    page.write_text("<td>u3</td>")
    assert main(["forget", str(run), "--attribute", "user", "--value", "nobody"]) == 1
    assert page.exists()
    assert main(["forget", str(run), "--attribute", "user", "--value", "u3"]) == 0
    assert not page.exists()
    assert "report.html was removed" in capsys.readouterr().err
    page.write_text("<td>u3</td>")  # one that was written by an earlier program
    assert main(["forget", str(run), "--attribute", "user", "--value", "u3"]) == 0
    assert not page.exists()


@pytest.mark.parametrize("file", ["metrics.json", "training.json"])
def test_an_unfinished_run_is_not_touched(file: str, run: Path, new: Path) -> None:
    (run / file).unlink()
    before = small_runs.file_bytes(run)
    for change in (lambda: forget(run, "user", ["u3"]), lambda: enrol(run, new), lambda: enrol(run, undo=True)):
        with pytest.raises(ModelFolderError, match="is an interrupted run, whose checkpoints have the values as they"):
            change()
    assert small_runs.file_bytes(run) == before


# Interruptions


@pytest.mark.parametrize("place", ["save", "first rename", "second rename"])
def test_an_interruption_leaves_one_model_or_the_other(place: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = logits(run, OLD)
    renamed: list[Path] = []
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        renamed.extend([path] if path.name in ("model", ".model.new") else [])
        if path in renamed and len(renamed) == {"first rename": 1, "second rename": 2}[place]:
            raise KeyboardInterrupt
        return rename(path, target)

    def unsaved(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if place == "save":
            patched.setattr(ConditionedModel, "save_pretrained", unsaved)
        else:
            patched.setattr(Path, "rename", interrupted)
            patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            forget(run, "user", ["u3"])
    # What a kill would have left: the model put aside, and none in its place.
    if not (run / "model").exists():
        assert (run / ".model.old").is_dir()
    np.testing.assert_allclose(Predictor.from_pretrained(run).logits(table(OLD))[0], before, rtol=1e-5)
    np.testing.assert_array_equal(logits(run, OLD), before)
    forget(run, "user", ["u3"])
    assert files_with_value("u3", run) == []
    assert not list(run.glob(".model*"))


def test_the_commands(run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enrol", str(run), str(new), "--steps", "3"]) == 0
    out, error = capsys.readouterr()
    values = [value.value for value in enrolments(run)[0]]
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["user", value] for value in values]
    assert "values added: 5, in" in error
    assert main(["enrol", str(run), "--undo"]) == 0
    assert "5 values removed" in capsys.readouterr().err
    assert main(["enrol", str(run), str(new), "--steps", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["values"]) == 5
    assert (run / "model" / ENROLMENTS).is_file()
    assert main(["forget", str(run), "--attribute", "user", "--value", "u9", "u3"]) == 0
    assert "no file below" in capsys.readouterr().err
    (run / "note.txt").write_text("u4")
    assert main(["forget", str(run), "--attribute", "user", "--value", "u4"]) == 1
    assert f"the value is still found in {run / 'note.txt'}" in capsys.readouterr().err
