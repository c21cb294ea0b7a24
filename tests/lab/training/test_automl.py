"""``automl``: a search that repeats, goes on where it was killed, keeps its best network, and never reads test rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import small_runs
import yaml
from reporters import Notes
from safetensors.numpy import load_file
from trained_runs import TrainedRuns
from troubles import FileFault

from attribune.apps.cli import main
from attribune.core.checksums import CHECKSUMS
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.training.train import train
from attribune_lab.automl import search as automl
from attribune_lab.automl.model import AutoMLModel
from attribune_lab.automl.search import NetworkFit, NetworkTexts, NetworkTrial, network_space
from attribune_lab.backbones.word_vectors import read_word_vectors

pytestmark = pytest.mark.slow

ROWS = small_runs.reviews(160, seed=3)
TRIALS = 3
PARTS = ("validation", "test")


@pytest.fixture(scope="module", autouse=True)
def _short_trials() -> Iterator[None]:
    """So that patience ends a trial after a few epochs; and there are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automl, "_CHECK", 400)
        patch.setattr(automl, "_MOST_EPOCHS", 30)
        yield


@pytest.fixture(scope="module")
def table(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(ROWS)


def recipe_of(table: Path, *, label: str = "stars", task: dict[str, Any] | None = None, **method: Any) -> Recipe:
    """A search of two trials, which read the user too."""
    return Recipe.from_dict(
        {
            "data": {"train": str(table), "text": "text", "label": label.split(), "attributes": [{"name": "user"}]},
            "method": {"name": "automl", "trials": 2, **method},
            "task": task or {},
            "training": {"precision": "float32", "patience": 1},
        }
    )


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished run of some trials."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(recipe_of(table, trials=TRIALS), folder, baselines=False)
    return folder


def trials_of(run: Path) -> list[dict[str, Any]]:
    """The results of the trials without the seconds, which differ."""
    results = [json.loads(file.read_text()) for file in sorted(run.glob("trials/*/result.json"))]
    return [{name: value for name, value in result.items() if name != "seconds"} for result in results]


def assert_same(run: Path, other: Path) -> None:
    assert trials_of(run) == trials_of(other)
    for file in ("model/automl.safetensors", "test_logits.safetensors"):
        one, two = load_file(run / file), load_file(other / file)
        assert one.keys() == two.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(two[name], array, err_msg=name)


def test_the_best_network_on_validation_rows_is_the_model(run: Path) -> None:
    results = json.loads((run / "metrics.json").read_text())
    trials = trials_of(run)
    best = min(range(TRIALS), key=lambda number: trials[number]["score"])
    assert results["training"]["best_trial"] == best + 1
    assert results["training"]["network"] == trials[best]["values"]
    own = results["results"][0]["parts"]["validation"]["log_loss"]["value"]
    assert own == pytest.approx(trials[best]["metrics"]["log_loss"])
    assert trials[best]["metrics"]["log_loss"] == trials[best]["score"]
    selected = results["training"]["selected_by"], results["training"]["best_value"]
    assert selected == ("log_loss", trials[best]["score"])
    assert [one["name"] for one in results["results"]] == ["automl", "automl, attributes hidden"]
    assert own < 0.6, "the words tell the class"
    assert not (run / "checkpoints").exists()
    assert sorted(file.name for file in (run / "model").iterdir()) == [
        "README.md", "automl.json", "automl.safetensors", CHECKSUMS, "schema.json",
    ]  # fmt: skip
    assert f"of which number {best + 1} was best" in (run / "model" / "README.md").read_text()


def test_one_seed_is_one_result_and_test_rows_are_not_read(run: Path, table: Path, tmp_path: Path) -> None:
    """The same rows with other test rows give the same search and the same model."""
    held = {name: pq.read_table(run / f"{name}_predictions.parquet")["row"].to_pylist() for name in PARTS}
    seen = [ROWS[row] for row in range(len(ROWS)) if row not in {*held["validation"], *held["test"]}]
    reversed_labels = [
        {**ROWS[row], "stars": "bad" if ROWS[row]["stars"] == "good" else "good"} for row in held["test"]
    ]
    rows = {"train": seen, "validation": [ROWS[row] for row in held["validation"]], "test": reversed_labels}
    paths = {part: str(small_runs.write_csv(tmp_path / f"{part}.csv", rows[part])) for part in rows}
    recipe = recipe_of(table, trials=TRIALS).model_dump()
    train(Recipe.from_dict({**recipe, "data": {**recipe["data"], **paths}}), tmp_path / "again", baselines=False)
    assert trials_of(tmp_path / "again") == trials_of(run)
    one, two = (load_file(folder / "model" / "automl.safetensors") for folder in (run, tmp_path / "again"))
    assert all(np.array_equal(two[name], array) for name, array in one.items())


def test_an_interrupted_trial_begins_again_with_its_values(
    run: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    checked = NetworkFit._check

    def interrupted(fit: Any) -> Any:
        begun.append(fit.settings.model_dump_json())
        if len(set(begun)) == 2 and begun.count(begun[-1]) == 2:
            raise KeyboardInterrupt
        return checked(fit)

    monkeypatch.setattr(NetworkFit, "_check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(recipe_of(table, trials=TRIALS), tmp_path / "run", baselines=False)
    assert len(trials_of(tmp_path / "run")) == 1
    assert len(list(tmp_path.glob("run/checkpoints/*"))) == 1
    interrupted_trial = begun[-1]
    monkeypatch.setattr(NetworkFit, "_check", checked)
    train(recipe_of(table, trials=TRIALS), tmp_path / "run", baselines=False, resume=True)
    assert_same(tmp_path / "run", run)
    assert trials_of(run)[1]["values"] == json.loads(interrupted_trial)


@pytest.mark.exhaustive
def test_killed_at_any_moment_it_goes_on_to_the_same_end(table: Path, tmp_path: Path) -> None:
    words = ["train", str(table), "--text", "text", "--label", "stars", "--attributes", "user", "--method", "automl"]
    words += ["--trials", str(TRIALS), "--no-baselines", "--set", "training.precision=float32", "training.patience=1"]
    log, killed = tmp_path / "log.txt", tmp_path / "killed"
    assert small_runs.Command([*words, "--output", str(tmp_path / "run")], log=log).wait() == 0, log.read_text()
    words += ["--output", str(killed)]
    for file in ("rows.json", "trials/0000/attempts.json", "trials/0001/values.json", "trials/0001/result.json"):
        trouble = FileFault(str(killed / file), at=1)
        assert small_runs.Command([*words, "--resume"], log=log, trouble=trouble).wait() == -9, log.read_text()
    assert len(trials_of(killed)) == 1
    assert small_runs.Command([*words, "--resume"], log=log).wait() == 0, log.read_text()
    assert_same(killed, tmp_path / "run")
    assert main([*words, "--resume"]) == 0
    assert main(words) == 1, "a finished run is not begun again"


def test_a_search_that_runs_out_of_time_has_the_best_so_far(table: Path, tmp_path: Path) -> None:
    results = train(recipe_of(table, trials=50, minutes=1e-9), tmp_path / "run", baselines=False)
    (trial,) = trials_of(tmp_path / "run")
    assert trial["ended"] == "minutes"
    assert len(trial["checks"]) == 1
    assert results["training"]["trials"] == 1


def test_trials_that_others_were_better_than_by_then_are_pruned() -> None:
    def tried(*checks: float) -> NetworkTrial:
        return NetworkTrial(number=0, values={}, checks=list(checks))

    others = [tried(5, 4, 3), tried(5, 3, 4), tried(5, 2), tried(5, 1), tried(5), tried(5, 6)]
    assert not automl._is_behind([9], others[:4]), "of four trials none is pruned"
    assert automl._is_behind([5.1], others)
    assert not automl._is_behind([5], others)
    assert automl._is_behind([5, 3.1], others), "the five others had 4, 3, 2, 1 and 5 by then"
    assert not automl._is_behind([2.5, 3.1], others), "the best so far counts"
    assert not automl._is_behind([9, 9, 9], others), "only two others came so far"


def test_networks_that_fail_are_left_out(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, fails = automl._fit, [True]

    def sometimes(*args: Any, **options: Any) -> Any:
        if fails[0]:
            raise RuntimeError("not enough memory")
        return fitted(*args, **options)

    monkeypatch.setattr(automl, "_fit", sometimes)
    with pytest.raises(DataError, match="all 2 trials of automl failed, the first with: not enough memory"):
        train(recipe_of(table), tmp_path / "run", baselines=False)
    fails[0] = False
    shutil.rmtree(tmp_path / "run" / "trials" / "0001")
    results = train(recipe_of(table), tmp_path / "run", baselines=False, resume=True)
    assert results["training"]["best_trial"] == 2
    assert trials_of(tmp_path / "run")[0]["error"] == "not enough memory"


def test_infinite_logits_end_a_trial(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = network_space([]) | {"deep_learning_rate": [1e30], "convolution": [False], "activation": ["relu"]}
    monkeypatch.setattr(automl, "network_space", lambda names: space)
    with pytest.raises(DataError, match=r"the logits became infinite or not a number with learning rates of 1e[+]30"):
        train(recipe_of(table, trials=1), tmp_path / "run", baselines=False)


TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "several labels": ("tags", {"multi_label": True, "separator": ";"}),
    "rating": ("look", {"kind": "rating"}),
    "regression": ("look", {"kind": "regression"}),
    "aspects": ("look taste", {}),
    "weighted": ("stars", {"class_weights": "balanced", "score_by": "macro_f1"}),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_learned(task: str, table: Path, tmp_path: Path) -> None:
    label, options = TASKS[task]
    results = train(recipe_of(table, label=label, task=options, trials=1), tmp_path / "run", baselines=False)
    (trial,) = trials_of(tmp_path / "run")
    validation = results["results"][0]["parts"]["validation"]
    found = {name: interval["value"] for name, interval in validation.items()}
    assert found == pytest.approx(trial["metrics"], rel=1e-4), "the model has the weights of the best check"
    metrics = results["results"][0]["parts"]["test"]
    assert all(np.isfinite(interval["value"]) for interval in metrics.values())
    _, predictor = load_run(tmp_path / "run")
    predicted = predictor.predict([{"text": "a great film", "user": "u1"}, {"text": "...", "user": "new"}])
    assert len(next(iter(predicted.values()))) == 2


@pytest.mark.exhaustive
def test_both_texts_of_a_pair_are_read(tmp_path: Path) -> None:
    """The label says whether the texts agree, which neither of them tells."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(160):
        one, two = random.choice(["red", "blue"], size=2)
        rows.append({"a": f"{one} thing {number}", "b": f"{two} thing", "same": "yes" if one == two else "no"})
    data = {"train": str(small_runs.write_csv(tmp_path / "pairs.csv", rows)), "text": "a", "text_pair": "b"}
    settings = {"data": {**data, "label": "same"}, "method": {"name": "automl", "trials": 3}}
    recipe = Recipe.from_dict(settings | {"training": {"patience": 1}})
    results = train(recipe, tmp_path / "run", baselines=False)
    assert results["results"][0]["parts"]["test"]["accuracy"]["value"] > 0.9
    _, predictor = load_run(tmp_path / "run")
    assert predictor.predict({"a": ["red one"] * 2, "b": ["red", "blue"]})["prediction"] == ["yes", "no"]


def test_attributes_are_features_and_unknown_ones_are_none(run: Path) -> None:
    _, predictor = load_run(run)
    assert Predictor.from_pretrained(run).text_input == predictor.text_input
    texts = [row["text"] for row in ROWS[:30]]
    known = predictor.logits({"text": texts, "user": [row["user"] for row in ROWS[:30]]})[0]
    new = predictor.logits({"text": texts, "user": ["somebody"] * 30})[0]
    hidden = predictor.logits({"text": texts, "user": ["u1"] * 30}, hide_attributes=True)[0]
    np.testing.assert_array_equal(new, hidden)
    assert not np.allclose(known, new)
    alone = [predictor.logits({"text": [row["text"]], "user": [row["user"]]})[0] for row in ROWS[:30]]
    np.testing.assert_allclose(np.concatenate(alone), known, rtol=1e-4, atol=1e-5)
    assert predictor.logits({"text": [], "user": []})[0].shape == (0, 2)
    long = "film " * 100_000 + "great"
    assert np.isfinite(predictor.logits({"text": [long, "", "?!"], "user": [None] * 3})[0]).all()


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors in which words of praise and of blame are apart, of all words but the numbers."""
    words = {"great": 1, "lovely": 1, "fine": 1, "awful": -1, "poor": -1, "dull": -1}
    words |= dict.fromkeys(small_runs._FILLER, 0)
    path = tmp_path_factory.mktemp("vectors") / "mood.txt"
    path.write_text("".join(f"{word} {mood} 0.5 {-mood}\n" for word, mood in words.items()))
    return path


def test_pretrained_vectors_are_those_of_the_file(table: Path, vectors: Path, tmp_path: Path) -> None:
    recipe, notes = recipe_of(table, word_vectors=str(vectors), trials=3), Notes()
    train(recipe, tmp_path / "run", baselines=False, reporter=notes)
    assert any(note.startswith("mood.txt: vectors of 3 numbers for 16 of ") for note in notes.lines)
    frozen = [trial["values"] for trial in trials_of(tmp_path / "run") if not trial["values"]["fine_tune"]]
    assert frozen, "of this seed's trials one leaves the vectors as they are"
    assert "mood.txt" in (tmp_path / "run" / "model" / "automl.json").read_text()
    assert str(vectors.parent) not in (tmp_path / "run" / "model" / "automl.json").read_text()

    model = load_run(tmp_path / "run")[1].model
    assert isinstance(model, AutoMLModel)
    texts = NetworkTexts(raw={}, labels={}, vectors={"mood.txt": read_word_vectors(vectors, {"great", "dull"})},
                          features=model.features, matrices={})  # fmt: skip
    initial = texts.initial_vectors(model.settings, model.vocabulary, seed=0).numpy()
    place = {word: number for number, word in enumerate(model.vocabulary.words, start=2)}
    np.testing.assert_array_equal(initial[place["great"]], [1, 0.5, -1])
    np.testing.assert_array_equal(initial[place["dull"]], [-1, 0.5, 1])
    np.testing.assert_array_equal(initial[0], 0)
    assert 0 < np.abs(initial[1]).max() <= 0.1


def test_other_vectors_are_noticed_and_foreign_ones_refused(table: Path, vectors: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    shutil.copy(vectors, file)
    recipe = recipe_of(table, word_vectors=str(file), trials=1)
    train(recipe, tmp_path / "run", baselines=False)
    for name in ("metrics.json", "training.json"):
        (tmp_path / "run" / name).unlink()
    file.write_text(file.read_text().replace("great 1", "great 2"))
    with pytest.raises(ConfigError, match="the word vectors are not those with which"):
        train(recipe, tmp_path / "run", baselines=False, resume=True)
    file.write_text("Haus 1 2 3\nBaum 3 2 1\n")
    with pytest.raises(DataError, match=r"own\.txt: has none of the \d+ words of the training rows"):
        train(recipe, tmp_path / "new", baselines=False)
    assert not (tmp_path / "new").exists()
    both = [str(file), str(vectors.with_name("own.txt"))]
    with pytest.raises(ConfigError, match=r"two files of word vectors are named 'own\.txt': rename one"):
        recipe_of(table, word_vectors=both)


@pytest.mark.parametrize("name", ["automl.json", "automl.safetensors", "schema.json"])
def test_damaged_files_are_refused(name: str, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(run / "model", folder)
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelFolderError, match=f"{name} differs from what was saved"):
        AutoMLModel.load(folder)
    (folder / CHECKSUMS).unlink()
    for size in (0, len(content) // 2):
        (folder / name).write_bytes(content[:size])
        with pytest.raises(ModelFolderError, match=name):
            AutoMLModel.load(folder)
    (folder / name).unlink()
    with pytest.raises(ModelFolderError, match=r"automl\.json|automl\.safetensors|schema\.json"):
        AutoMLModel.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "attribune-linear"}, "is not a automl model|is not an automl model"),
        ({"version": 2}, "version 2"),
        ({"words": ["a"]}, r"arrays of shapes .*embedding\.weight"),
        ({"features": ["a"]}, r"arrays of shapes .*idf"),
        ({"features": 3}, "do not fit"),
        ({"is_pair": True}, r"arrays of shapes"),
        ({"network": {}}, "do not fit|required"),
        ({"task": {"kind": "regression", "mean": 0, "std": 1, "missing": []}}, r"arrays of shapes .*output\.bias"),
    ],
)
def test_changed_settings_are_refused(change: dict[str, Any], message: str, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    (tmp_path / "model" / CHECKSUMS).unlink()
    path = tmp_path / "model" / "automl.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelFolderError, match=message):
        AutoMLModel.load(tmp_path / "model")


def test_the_space_is_that_of_the_paper() -> None:
    space = network_space(["glove.txt"])
    assert len(space) == 21
    assert space["vectors"] == ["glove.txt"]
    assert space["fine_tune"] == [True, False]
    assert network_space([])["fine_tune"] == [True], "random vectors that are never trained say nothing"
    recipe = yaml.safe_load(recipe_of(Path("data.csv")).to_yaml())
    assert recipe["method"] == {"name": "automl", "trials": 2, "minutes": None, "word_vectors": []}
    with pytest.raises(ConfigError, match="method 'automl' has no option C: it has trials, minutes, word_vectors"):
        recipe_of(Path("data.csv"), C=3)
    with pytest.raises(ConfigError, match="trials"):
        recipe_of(Path("data.csv"), trials=0)
