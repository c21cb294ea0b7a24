"""Runs whose values are described, from the command line: training, new values, forgetting, export."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from commands import Attribune, Fails
from datasets import Dataset
from lab_methods import needs_lab
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.errors import ConfigError, DataError
from attribune.runs.loading import load_run
from attribune.schema.attributes import FittedAttribute
from attribune.values.enrol import enrol
from attribune.values.forget import forget
from attribune.values.learning import EnrolSettings
from attribune.values.live_run import LiveRun
from attribune.values.record import enrolments

pytestmark = pytest.mark.slow

ROWS = small_runs.reviews(80, seed=3)
# What the Trainer left in the configuration is gone with the first change.
NOT_REVISED = ("config.json", "checksums.json")
USERS = [f"u{number}" for number in range(7)]


def users(names: list[str], *, seed: int = 1) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "user": name,
            "age": rng.integers(20, 70),
            "city": rng.choice(["Rome", "Oslo"]),
            "given": json.dumps(rng.normal(size=3).round(3).tolist()),
            "bio": f"the film was a plot and cast n{number} very quite so",
        }
        for number, name in enumerate(names)
    ]


@pytest.fixture(scope="module")
def folder(trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("described")
    (folder / "backbone").symlink_to(trained_runs.backbone())
    small_runs.write_csv(folder / "data.csv", ROWS)
    small_runs.write_csv(folder / "users.csv", users([*USERS, "later"]))
    small_runs.write_csv(folder / "new.csv", users(["new1", "new2", "u0"], seed=2))
    return folder


def words(
    folder: Path, output: Path, *more: str, method: str = "injector", table: str | Path | None = "users.csv"
) -> list[str]:
    command = small_runs.train_command(folder / "data.csv", output, backbone=folder / "backbone", method=method)
    values = [] if table is None else ["--values", f"user={folder / table}"]
    return [*command, *values, "--no-baselines", *more]


@pytest.fixture(scope="module")
def original(folder: Path) -> Path:
    assert main(words(folder, folder / "run")) == 0
    return folder / "run"


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def user_of(run: Path) -> FittedAttribute:
    return load_run(run)[1].schema["user"]


def features(user: FittedAttribute) -> np.ndarray:
    """What is known of each value."""
    return user.description.features


def logits(run: Path, users: list[str]) -> np.ndarray:
    model = load_run(run)[1]
    return model.logits({"text": ["a great film"] * len(users), "user": users})[0]


def stored(run: Path) -> dict[str, bytes]:
    """Tensors, schema and descriptions."""
    return {path.name: path.read_bytes() for path in (run / "model").glob("*") if path.name not in NOT_REVISED}


def test_the_columns_are_those_of_the_file(original: Path) -> None:
    user = user_of(original)
    found = [(one.spec.name, one.spec.kind) for one in user.description.fields]
    assert found == [("age", "number"), ("city", "categorical"), ("given", "vector"), ("bio", "text")]
    assert load_run(original)[0].data.values["user"].table.endswith("users.csv")
    assert user.counts[user.values.index("later") + 1] == 0


def test_a_described_value_without_rows_differs_from_the_unknown(original: Path) -> None:
    unknown, later, known = logits(original, ["nobody", "later", "u1"])
    assert np.abs(later - unknown).max() > 1e-6
    assert np.abs(known - unknown).max() > 1e-6


def test_new_values_are_described_and_taken_back(run: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(run)
    old = logits(run, ["u0", "nobody", "new1"])
    assert main(["enrol", str(run), "--values", f"user={folder / 'new.csv'}"]) == 0
    assert "values added: 2" in capsys.readouterr().err
    new = logits(run, ["u0", "nobody", "new1"])
    assert new[:2] == pytest.approx(old[:2], abs=1e-6)
    assert np.abs(new[2] - old[2]).max() > 1e-6
    added = [(one.value, one.rows, one.loss_before) for one in enrolments(run)[0]]
    assert added == [("new1", 0, None), ("new2", 0, None)]
    with pytest.raises(DataError, match="no new value"):
        enrol(run, values={"user": folder / "new.csv"})
    assert main(["enrol", str(run), "--undo"]) == 0
    assert stored(run) == before


def test_rows_move_a_value_from_what_its_description_says(run: Path, folder: Path) -> None:
    enrol(run, values={"user": folder / "new.csv"})
    described = logits(run, ["new1", "new2"])
    main(["enrol", str(run), "--undo"])
    rows = {"text": ["a great film"] * 4, "stars": ["bad"] * 4, "user": ["new1", "new1", "new1", "stranger"]}
    prior = 1e-4  # a training this short knows little of how values differ
    found = enrol(run, Dataset.from_dict(rows), values={"user": folder / "new.csv"}, prior=prior)
    assert [(one.value, one.rows) for one in found.values] == [("new1", 3), ("new2", 0), ("stranger", 1)]
    moved = logits(run, ["new1", "new2", "stranger"])
    assert np.abs(moved[0] - described[0]).max() > 1e-4
    assert moved[1] == pytest.approx(described[1], abs=1e-6)


@pytest.mark.exhaustive
def test_values_that_are_learned_in_memory_are_not_described(run: Path, tmp_path: Path) -> None:
    rows = Dataset.from_dict({"text": ["a great film"] * 3, "stars": ["bad"] * 3, "user": ["stranger"] * 3})
    prior = 1e-4
    other = Path(shutil.copytree(run, tmp_path / "other"))
    enrol(other, rows, prior=prior)
    live, names = LiveRun.open(run), ["u0", "later", "stranger", "nobody"]
    live.add([live.learn("user", "stranger", rows, settings=EnrolSettings(prior=prior))])
    given = {"text": ["a great film"] * len(names), "user": names}
    np.testing.assert_array_equal(live.predictor.logits(given)[0], logits(run, names))
    assert logits(run, names) == pytest.approx(logits(other, names), abs=1e-6)
    live.remove("user", "u0")
    np.testing.assert_array_equal(live.predictor.logits(given)[0], logits(run, names))


@pytest.mark.exhaustive
def test_values_without_vectors_of_their_own(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(words(folder, run, "--set", "data.values.user.own_vectors=false")) == 0
    model = load_run(run)[1].model
    assert not model.values.owners()
    twins = [{**one, "user": f"twin of {one['user']}"} for one in users(USERS)[:2]]
    enrol(run, values={"user": small_runs.write_csv(tmp_path / "twins.csv", twins)})
    for name in USERS[:2]:
        one, twin, unknown = logits(run, [name, f"twin of {name}", "nobody"])
        assert one == pytest.approx(twin, abs=1e-6)
        assert np.abs(one - unknown).max() > 1e-6
    rows = {"text": ["a great film"], "stars": ["bad"], "user": ["stranger"]}
    with pytest.raises(ConfigError, match="have no vectors of their own, and 'stranger' is not described"):
        enrol(run, Dataset.from_dict(rows))


def test_rows_of_a_value_known_by_its_description_are_not_lost_in_silence(run: Path, folder: Path) -> None:
    rows = Dataset.from_dict({"text": ["a great film"] * 2, "stars": ["bad"] * 2, "user": ["later", "stranger"]})
    with pytest.raises(DataError, match="1 values of 'user', the first being 'later', are known by their descriptions"):
        enrol(run, rows)
    forget(run, "user", ["later"])
    found = enrol(run, rows, values={"user": folder / "users.csv"})
    assert [(one.value, one.rows) for one in found.values] == [("later", 1), ("stranger", 1)]


def test_a_value_described_in_training_is_the_one_that_is_enrolled(run: Path, tmp_path: Path) -> None:
    table = load_run(run)[1].model.method.tables[0]  # type: ignore[union-attr]
    assert not table[0].any()
    later = next(one for one in users([*USERS, "later"]) if one["user"] == "later")
    enrol(run, values={"user": small_runs.write_csv(tmp_path / "twin.csv", [{**later, "user": "twin"}])})
    one, twin = logits(run, ["later", "twin"])
    assert one == pytest.approx(twin, abs=1e-6)


def test_forgetting_removes_what_is_known_of_a_value(run: Path) -> None:
    before = user_of(run)
    forget(run, "user", ["u1"])
    expected = np.delete(features(before), before.values.ids(["u1"])[0], axis=0)
    assert np.array_equal(features(user_of(run)), expected)
    assert len(list((run / "model").glob("schema.features-*"))) == 1


@pytest.mark.exhaustive
def test_forgetting_removes_the_name_of_a_category_that_nobody_else_has(folder: Path, tmp_path: Path) -> None:
    rows = [{**one, "city": "Atlantis" if one["user"] == "u1" else one["city"]} for one in users(USERS)]
    table, run = small_runs.write_csv(tmp_path / "table.csv", rows), tmp_path / "run"
    assert main(words(folder, run, table=table)) == 0
    before = logits(run, ["u0", "u2"])
    table.unlink()
    forget(run, "user", ["u1"])
    assert not any(b"Atlantis" in content for content in small_runs.file_bytes(run).values())
    assert logits(run, ["u0", "u2"]) == pytest.approx(before, rel=1e-5, abs=1e-6)


ENDINGS = {"torch": ".pt2", "onnx": ".onnx", "adapter": ""}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "adapter" else pytest.mark.exhaustive) for kind in ENDINGS]
)
def test_exports_predict_the_same(run: Path, tmp_path: Path, kind: str) -> None:
    """The export compares itself with the model; for given values it holds nothing of the others."""
    assigned = ["--for", "user=u1"] if kind == "adapter" else []
    command = ["export", str(run), "--format", kind, *assigned, "--output", str(tmp_path / f"out{ENDINGS[kind]}")]
    assert main(command) == 0


@pytest.mark.exhaustive
def test_training_goes_on_with_more_values(run: Path, tmp_path: Path) -> None:
    more = small_runs.write_csv(tmp_path / "more.csv", small_runs.reviews(60, seed=9, users=9))
    command = ["train", str(more), "--continue", str(run), "--epochs", "1", "--output", str(tmp_path / "next")]
    assert main([*command, "--no-baselines"]) == 0
    ours, theirs = user_of(run), user_of(tmp_path / "next")
    assert theirs.values[: len(ours.values)] == ours.values[:]
    assert np.array_equal(features(theirs)[: ours.size], features(ours))


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ("user", "--values user: write COLUMN=FILE, such as user=users.csv"),
        ("user=", "--values user=: write COLUMN=FILE"),
        ("user=nowhere.csv", "nowhere.csv"),
        ("item=users.csv", "'item' is not an attribute, so its values cannot be described (attributes: user)"),
        ("user=data.csv", "rows 1 and"),
    ],
)
def test_wrong_tables_cost_one_message(fails: Fails, folder: Path, tmp_path: Path, values: str, part: str) -> None:
    name, equals, file = values.partition("=")
    given = f"{name}={folder / file}" if equals and file else values
    assert part in fails(*words(folder, tmp_path / "run", "--values", given, table=None))
    assert not (tmp_path / "run").exists()


def test_descriptions_of_a_run_without_them_are_refused(
    folder: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    trained_runs.copy(trained_runs("injector"), tmp_path / "run")
    with pytest.raises(ConfigError, match="'user' were not described in training"):
        enrol(tmp_path / "run", values={"user": folder / "new.csv"})
    with pytest.raises(ConfigError, match="neither a table of rows nor one that describes values"):
        enrol(tmp_path / "run")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("method", ["linear", "attributes-only", "intercept", "heads", "boosting"])
def test_baselines_read_descriptions_too(folder: Path, tmp_path: Path, method: str) -> None:
    """Without vectors of their own, values of one description are one; taken out and added, the others stay."""
    run = tmp_path / "run"
    twins = small_runs.write_csv(tmp_path / "twins.csv", [*users(USERS), {**users(USERS)[0], "user": "twin"}])
    more = ("--set", "data.values.user.own_vectors=false")
    assert main(words(folder, run, *more, method=method, table=twins)) == 0
    before = one, twin, other, unknown = logits(run, ["u0", "twin", "u2", "nobody"])
    assert one == pytest.approx(twin, rel=1e-5, abs=1e-6)
    assert np.abs(one - other).max() > 1e-6
    assert np.abs(one - unknown).max() > 1e-6
    forget(run, "user", ["u1"])
    assert logits(run, ["u0", "twin", "u2", "nobody"]) == pytest.approx(np.array(before), rel=1e-5, abs=1e-6)


@pytest.mark.exhaustive
def test_each_part_is_compared_alone(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a method without vectors without descriptions, which a baseline reads."""
    run = tmp_path / "run"
    command = words(folder, run, "--compare", "ids", "descriptions", "shuffled", "poly", "linear")
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "injector against injector, ids alone" in said
    assert "injector against injector, descriptions alone" in said
    ids, descriptions = (load_run(run / "compare" / name)[1] for name in ("ids", "descriptions"))
    assert ids.schema["user"].description is None
    assert descriptions.schema["user"].layout.has_own_vectors is False
    assert [*ids.schema["user"].values, "later"] == list(descriptions.schema["user"].values)
    assert load_run(run / "compare" / "poly")[1].schema["user"].description is None
    assert load_run(run / "compare" / "linear")[1].schema["user"].description is not None
    assert main([*command, "--resume"]) == 0
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "Values of `user` are described by `age`, `city`, `given`, `bio`." in card
    assert "What `age` says of people may be sensitive" in card
    card = (run / "compare" / "descriptions" / "model" / "README.md").read_text(encoding="utf-8")
    assert "`bio`, and have no vectors of their own." in card


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ([], "compare ids: no values are described"),
        (["--set", "data.values.user.table=users.csv", "data.values.user.own_vectors=false"], "trained anyway"),
    ],
)
def test_parts_that_are_not_there_are_not_compared(
    fails: Fails, folder: Path, tmp_path: Path, more: list[str], part: str
) -> None:
    name = "descriptions" if more else "ids"
    assert part in fails(*words(folder, tmp_path / "run", "--compare", name, *more, table=None))


@needs_lab
def test_an_experiment_has_each_part_alone(folder: Path, tmp_path: Path) -> None:
    from attribune_lab.benchmark.experiment import Experiment

    file = tmp_path / "mine.yaml"
    command = ["benchmark", "new", "--data", str(folder / "data.csv"), "--text", "text", "--label", "stars"]
    command += ["--attributes", "user", "tags", "--values", f"user={folder / 'users.csv'}", "--output", str(file)]
    assert main(command) == 0
    experiment = Experiment.read(file)
    plan = experiment.sets[0]
    recipes = {
        cell.setting.name: experiment.recipe(cell, data=plan.data or {}, task={})["data"].get("values")
        for cell in experiment.cells()
    }
    table = str(folder / "users.csv")
    assert recipes["injector"] == {"user": {"table": table}}
    assert recipes["injector, ids alone"] == {}
    assert recipes["injector, descriptions alone"] == {"user": {"table": table, "own_vectors": False}}
    assert recipes["tags alone"] == {}


@needs_lab
@pytest.mark.parametrize("method", ["poly", "history", "one-per-value", "upnn"])
def test_a_method_without_vectors_is_refused_before_anything_is_read(
    attribune: Attribune, folder: Path, tmp_path: Path, method: str
) -> None:
    code, _, err = attribune(*words(folder, tmp_path / "run", method=method))
    assert f"method '{method}' has no vectors of values, which the descriptions of 'user' could give" in err
    assert (code, "rows read" in err) == (1, False)


@pytest.mark.exhaustive
def test_training_goes_on_with_values_that_are_described_now(run: Path, tmp_path: Path) -> None:
    """New values are read as those of the first training, and one without rows is what its description says."""
    more = small_runs.write_csv(tmp_path / "more.csv", small_runs.reviews(60, seed=9, users=8))
    described_rows = [*users([*USERS, "later"]), *users(["u7", "new1"], seed=2)]
    both = small_runs.write_csv(tmp_path / "both.csv", described_rows)
    command = ["train", str(more), "--continue", str(run), "--values", f"user={both}", "--epochs", "1"]
    assert main([*command, "--output", str(tmp_path / "next"), "--no-baselines"]) == 0
    old, new = user_of(run), user_of(tmp_path / "next")
    assert np.array_equal(features(new)[: old.size], features(old))
    enrol(run, values={"user": both})
    enrolled = user_of(run)
    for name in ("u7", "new1"):
        found, expected = new.values.ids([name])[0], enrolled.values.ids([name])[0]
        assert np.array_equal(features(new)[found], features(enrolled)[expected])
    model: Any = load_run(tmp_path / "next")[1].model
    table = model.method.tables[0]
    assert not table[0].any()
    ((described, _),) = model.values.described()
    assert described.own_ids[new.values.ids(["new1", "u7"])].tolist() == [0, new.values.ids(["u7"])[0]]
    assert table[new.values.ids(["u7"])[0]].any()


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (["--values", "user={}", "--set", "data.values.user.own_vectors=false"], "own_vectors of 'user' is false, but"),
        (["--compare", "ids"], "compare ids: the run that is continued has the descriptions"),
    ],
)
def test_what_goes_on_keeps_its_descriptions(
    fails: Fails, run: Path, folder: Path, tmp_path: Path, more: list[str], part: str
) -> None:
    given = [word.format(folder / "users.csv") for word in more]
    command = ["train", str(folder / "data.csv"), "--continue", str(run), "--output", str(tmp_path / "next")]
    assert part in fails(*command, *given, "--no-baselines")


@needs_lab
def test_an_experiment_knows_its_tables_of_values(folder: Path, tmp_path: Path) -> None:
    from attribune_lab.benchmark.experiment import SetPlan
    from attribune_lab.benchmark.source import SetSource

    table = small_runs.write_csv(tmp_path / "users.csv", users(USERS))
    data = {"train": str(folder / "data.csv"), "text": ["text"], "label": ["stars"], "attributes": [{"name": "user"}]}
    plan = SetPlan(name="mine", data=data | {"values": {"user": str(table)}}, folds=(0,))
    before = SetSource(plan).checksum()
    assert before != SetSource(SetPlan(name="mine", data=data, folds=(0,))).checksum()
    small_runs.write_csv(table, users(USERS, seed=5))
    assert SetSource(plan).checksum() != before
    table.unlink()
    with pytest.raises(DataError, match="which describes values of the set 'mine', does not exist"):
        SetSource(plan).check_files()
