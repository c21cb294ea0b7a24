"""Two texts of a row, from a table to a prediction: as one input, preferred, or compared."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import small_runs
import torch
import yaml
from families import BERT_METHODS
from lab_methods import needs_lab
from preference_tables import chosen_and_rejected, learned_preference, preference_command, preferences
from similarity_tables import DOCUMENTS, FORMS, fitting, learned_similarity, pairs, similarity_command
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.data.tables import read_table
from attribune.errors import DataError
from attribune.models.auto import load_model
from attribune.models.predictor import Predictor
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.values.panel import Panel

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
Fails = Callable[..., str]


def moods(count: int = 90) -> Rows:
    """Whether two texts have the same mood, which neither of them tells alone."""
    chance, words, table = random.Random(3), {True: ["great", "lovely"], False: ["awful", "dull"]}, []
    for number in range(count):
        good = chance.random() < 0.5, chance.random() < 0.5
        one, two = (f"the film was {chance.choice(words[mood])} n{number % 61}" for mood in good)
        same = "same" if good[0] == good[1] else "other"
        table.append({"one": one, "two": two, "stars": same, "user": f"u{chance.randrange(5)}"})
    return table


def pairs_command(data: Path, run: Path, *words: str, backbone: Path, method: str = "none") -> list[str]:
    texts = ("one", "--text-pair", "two")
    return [*small_runs.train_command(data, run, backbone=backbone, method=method, text=texts), *words]


MOODS, PREFERRED = moods(), preferences(120)
DECIDED = [row for row in PREFERRED if row["winner"] != "tie"]
COMMANDS = {"pairs": pairs_command, "preference": preference_command, "similarity": similarity_command}
TABLES = {"pairs": MOODS, "preference": PREFERRED, "similarity": pairs(240)}


def without(rows: Rows, column: str) -> Rows:
    return [{name: cell for name, cell in row.items() if name != column} for row in rows]


def predicted(run: Path, data: Path, output: Path) -> Rows:
    """What the command says of a table."""
    assert main(["predict", str(run), str(data), "--output", str(output)]) == 0
    return [json.loads(line) for line in output.read_text().splitlines()]


@pytest.fixture
def pair_run(trained_runs: TrainedRuns, backbone: Path) -> Path:
    return trained_runs.trained(pairs_command(trained_runs.table(MOODS), Path(), backbone=backbone, method="injector"))


@pytest.fixture
def judged(trained_runs: TrainedRuns) -> Path:
    """A run that has learned the words and the judge."""
    return learned_preference(trained_runs)


KEPT = ("concat-text", "history", "linear")
"""Methods that read values in the text, rows before it, and counts of its words."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name in KEPT else pytest.mark.exhaustive)
        for name in (*BERT_METHODS, "linear", "boosting", "automl")
    ],
)
def test_every_method_takes_pairs(method: str, trained_runs: TrainedRuns, backbone: Path, tmp_path: Path) -> None:
    run, data = tmp_path / "run", trained_runs.table(MOODS)
    assert main(pairs_command(data, run, "--no-baselines", backbone=backbone, method=method)) == 0
    assert main(["evaluate", str(run), str(data)]) == 0
    shown = predicted(run, data, tmp_path / "out.jsonl")
    predictor = load_run(run)[1]
    table = {name: [row[name] for row in MOODS] for name in predictor.columns}
    assert set(table) >= {"one", "two"}
    found = predictor.predict(table)["probability_same"]
    assert [row["probability_same"] for row in shown] == pytest.approx(found.tolist(), abs=1e-4)
    swapped = predictor.predict(table | {"one": table["two"], "two": ["the film"] * len(MOODS)})
    assert abs(swapped["probability_same"] - found).max() > 1e-6


def test_the_backbone_reads_what_its_tokenizer_makes(trained_runs: TrainedRuns, backbone: Path, tmp_path: Path) -> None:
    assert main(pairs_command(trained_runs.table(MOODS), tmp_path, "--no-baselines", backbone=backbone)) == 0
    model = load_model(tmp_path)
    predictor = Predictor(model)
    table = {"one": ["the film was great", "a"], "two": ["awful", "the plot and cast"]}
    batch = model.tokenizer(table["one"], table["two"], padding=True, return_tensors="pt", return_token_type_ids=True)
    assert batch["token_type_ids"].max() == 1
    with torch.no_grad():
        expected = model.calibrated(model.eval()(**batch).logits).numpy()
    assert predictor.logits(table)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "name"), [("torch", "graph.pt2"), ("onnx", "graph.onnx")])
def test_a_graph_reads_both_texts(
    kind: str, name: str, pair_run: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    words = ["export", str(pair_run), "--format", kind, "--output", str(tmp_path / name)]
    assert main([*words, "--for", "user=u1", "--check", str(trained_runs.table(MOODS))]) == 0
    if kind == "onnx":
        session = onnxruntime.InferenceSession(tmp_path / name)
        assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]


@needs_lab
@pytest.mark.exhaustive
def test_a_benchmark_of_pairs(trained_runs: TrainedRuns, backbone: Path, tmp_path: Path) -> None:
    from attribune_lab.benchmark.results import BenchmarkFolder
    from attribune_lab.benchmark.tables import benchmark_tables

    data, plan = trained_runs.table(MOODS), tmp_path / "mine.yaml"
    words = ["benchmark", "new", "--data", str(data), "--text", "one", "--text-pair", "two", "--label", "stars"]
    assert main([*words, "--attributes", "user", "--steps", "2", "--output", str(plan)]) == 0
    experiment = yaml.safe_load(plan.read_text())
    assert experiment["sets"][0]["data"]["text_pair"] == ["two"]
    experiment |= {"settings": ["none", "linear"], "reference": "none", "data": {"max_length": 32}}
    experiment["backbone"], experiment["sets"][0]["folds"] = {"name": str(backbone)}, [0]
    plan.write_text(yaml.safe_dump(experiment))
    assert main(["benchmark", "run", str(plan), "--output", str(tmp_path / "out")]) == 0
    (table,) = benchmark_tables(BenchmarkFolder(tmp_path / "out"))
    assert table.lines[0].group.results[0].facts()["words"].min() >= 8, "of both texts"


LONG = "the film was great " * 6_000  # 114,000 characters
ODD = ["", " ", None, "\x00\x01", "\ufe0f", "\u202e", "x" * 100_000, LONG]


def test_texts_of_any_kind_and_length(pair_run: Path, tmp_path: Path) -> None:
    """Each with each, in every window that cuts."""
    table = [{"one": one, "two": two, "user": "u1"} for one in ODD for two in ODD]
    predictor = load_run(pair_run)[1]
    alone = predictor.predict(table)["probability_same"]
    assert np.isfinite(alone).all()
    for truncation in ("only_first", "only_second"):
        text = dataclasses.replace(predictor.text_input, truncation=truncation)
        assert np.isfinite(Predictor(predictor.model, text_input=text).predict(table)["probability_same"]).all()
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in table), encoding="utf-8")
    shown = predicted(pair_run, file, tmp_path / "out.jsonl")
    assert [row["probability_same"] for row in shown] == pytest.approx(alone.tolist(), abs=1e-4)
    with pytest.raises(DataError, match="column 'two' holds text with half of a character pair"):
        predictor.predict([{"one": "a", "two": "\ud83d"}])


def test_words_and_judges_are_learned(judged: Path) -> None:
    results = RunFolder(judged).read_results()
    assert list(results.table("test")[0].metrics) == ["accuracy", "log_loss"]
    assert any("are ties and are left out" in note for note in results.notes)
    assert [model.name for model in results.models][-1] == "majority"
    new, predictor = preferences(80, seed=1), load_run(judged)[1]
    found = np.array(predictor.predict(new)["prediction"])
    decided = [row["winner"] != "tie" for row in new]
    assert (found == [row["winner"] for row in new])[decided].mean() > 0.8
    other = predictor.predict([{**row, "user": "u0" if row["user"] == "u3" else "u3"} for row in new])
    assert (np.array(other["prediction"]) != found)[decided].mean() > 0.6, "who is asked decides"


def test_predictions_have_rewards_whose_difference_is_the_probability(
    judged: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    shown = predicted(judged, trained_runs.table(PREFERRED), tmp_path / "out.jsonl")
    assert len(shown) == len(PREFERRED)
    for row in shown[:20]:
        difference = row["reward_first"] - row["reward_second"]
        assert row["probability_first"] == pytest.approx(1 / (1 + np.exp(-difference)), abs=1e-6)
        assert row["prediction"] == ("first" if difference > 0 else "second")
    predictor = load_run(judged)[1]
    swapped = predictor.predict([{**row, "one": row["two"], "two": row["one"]} for row in PREFERRED])
    expected = swapped["probability_second"].tolist()
    assert [row["probability_first"] for row in shown] == pytest.approx(expected, abs=1e-5)
    same = predictor.predict([{"one": "the film", "two": "the film", "user": "u1"}])
    assert same["probability_first"].tolist() == pytest.approx([0.5], abs=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [pytest.param([], marks=pytest.mark.exhaustive), ["--prompt", "prompt"]])
def test_chosen_and_rejected_need_no_label(
    options: list[str], trained_runs: TrainedRuns, backbone: Path, tmp_path: Path
) -> None:
    run, rows = tmp_path / "run", chosen_and_rejected(PREFERRED)
    data = trained_runs.table(rows)
    assert main([*preference_command(data, run, backbone=backbone, is_chosen=True), *options]) == 0
    assert main(["evaluate", str(run), str(data)]) == 0
    predictor = load_run(run)[1]
    assert predictor.columns == (*(["prompt"] if options else []), "chosen", "rejected", "user")
    (majority,) = (row for row in RunFolder(run).read_results().table("validation") if row.name == "majority")
    assert majority.metrics["accuracy"].value == 0.5
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "preference between `chosen`, `rejected`, one reward for each" in card
    assert "label: none, the first text is the preferred one" in card
    assert ('"prompt": "..."' in card) == bool(options)
    if options:
        other = predictor.predict([{**row, "prompt": "the cast"} for row in rows])
        assert abs(other["reward_first"] - predictor.predict(rows)["reward_first"]).max() > 1e-6
    stored = read_table(run / "test_predictions.parquet").column_names
    assert not [name for name in stored if name.startswith("true_")]


def test_ties_are_counted_in_an_evaluation(judged: Path, trained_runs: TrainedRuns, capsys: Any) -> None:
    assert main(["evaluate", str(judged), str(trained_runs.table(PREFERRED))]) == 0
    notes = capsys.readouterr().err
    assert "with no preference between two different texts" in notes
    assert "are ties and are left out" in notes


@pytest.fixture
def with_ties(trained_runs: TrainedRuns, backbone: Path) -> Path:
    """A run for which a tie is an answer."""
    words = ["task.learn_ties=true", "training.learning_rate=0.02", "--no-baselines"]
    return trained_runs.trained(preference_command(trained_runs.table(PREFERRED), Path(), *words, backbone=backbone))


def test_ties_are_learned_and_predicted(
    with_ties: Path, trained_runs: TrainedRuns, tmp_path: Path, capsys: Any
) -> None:
    data, results = trained_runs.table(PREFERRED), RunFolder(with_ties).read_results()
    assert not any("are ties and are left out" in note for note in results.notes)
    capsys.readouterr()
    assert main(["evaluate", str(with_ties), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == len(PREFERRED)
    rows = predicted(with_ties, data, tmp_path / "out.jsonl")
    names = ["probability_first", "probability_second", "probability_tie"]
    for row in rows[:20]:
        assert sum(row[name] for name in names) == pytest.approx(1, abs=1e-5)
        decided = row["probability_first"] / (row["probability_first"] + row["probability_second"])
        difference = row["reward_first"] - row["reward_second"]
        assert decided == pytest.approx(1 / (1 + np.exp(-difference)), abs=1e-5)
        assert row["prediction"] == max(names, key=lambda name: row[name]).removeprefix("probability_")
    predictor = load_run(with_ties)[1]
    link, share = predictor.model.neural().link, predictor.task.tie_share
    begun = np.log(2 * share / (1 - share))
    assert abs(link.log_nu.item() - begun) > 1e-3, "the weight of ties is learned, and saved"
    rewards = predictor.reward([row["one"] for row in PREFERRED], user=[row["user"] for row in PREFERRED])
    assert rewards.tolist() == pytest.approx([row["reward_first"] for row in rows], abs=1e-5)


@pytest.mark.exhaustive
def test_a_run_with_ties_in_other_verbs(with_ties: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    predictor, data = load_run(with_ties)[1], trained_runs.table(PREFERRED)
    opinions = Panel.of(predictor, "user").predict(predictor, {name: [PREFERRED[0][name]] for name in ("one", "two")})
    assert set(opinions["prediction"]) <= {"first", "second", "tie"}
    new = small_runs.write_csv(tmp_path / "new.csv", [{**row, "user": "new"} for row in PREFERRED[:20]])
    shutil.copytree(with_ties, tmp_path / "run")
    for words in (
        ["enrol", str(tmp_path / "run"), str(new)],
        ["report", str(with_ties), str(data), "--output", str(tmp_path / "page.html")],
        ["compare", str(with_ties), str(with_ties)],
        ["describe", str(with_ties)],
        ["ablate", str(with_ties), str(data), "--rows", "20"],
    ):
        assert main(words) == 0, words


def test_a_panel_of_judges(judged: Path) -> None:
    predictor = load_run(judged)[1]
    rows = [row for row in preferences(40, seed=2) if row["winner"] != "tie"]
    texts = {name: [row[name] for row in rows] for name in ("one", "two")}
    opinions = Panel.of(predictor, "user").predict(predictor, texts)
    assert np.mean([dissenters == ["u3"] for dissenters in opinions["dissenters"]]) > 0.5
    assert opinions["probability_first"] + opinions["probability_second"] == pytest.approx(np.ones(len(rows)))


def test_judgements_of_one_pair_make_distributions_and_clusters(backbone: Path, tmp_path: Path) -> None:
    rows = [
        {**pair, "user": f"u{judge}", "winner": "first" if (judge + number) % 3 else "second"}
        for number, pair in enumerate(DECIDED[:30])
        for judge in range(4)
    ]
    data = small_runs.write_csv(tmp_path / "judged.csv", rows)
    assert main(preference_command(data, tmp_path / "run", backbone=backbone)) == 0
    results = RunFolder(tmp_path / "run").read_results()
    assert any("not independent: intervals are over these" in note for note in results.notes)
    assert {"cross_entropy", "manhattan", "error_rate"} <= set(results.judgements("test")[0].metrics)


@pytest.mark.exhaustive
def test_runs_over_one_backbone_score_alone(trained_runs: TrainedRuns, backbone: Path) -> None:
    command = preference_command(trained_runs.table(PREFERRED), Path(), "--no-baselines", backbone=backbone)
    run = trained_runs.trained(command)
    group = PredictorGroup.from_pretrained({"a": run, "b": run})
    assert group.refusals["a"] == "it compares texts"
    found, rows = group.predict({"a": PREFERRED[:9]})["a"], PREFERRED[:9]
    expected = load_run(run)[1].predict(rows)["probability_first"]
    assert found["probability_first"].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        ["data.window=chunks:8x3", "task.labels=[second, first]"],
        pytest.param(["data.window=head+tail:4+4"], marks=pytest.mark.exhaustive),
    ],
)
def test_windows_and_other_names(
    settings: list[str], trained_runs: TrainedRuns, backbone: Path, tmp_path: Path
) -> None:
    data = trained_runs.table(PREFERRED)
    words = preference_command(data, tmp_path / "run", *settings, backbone=backbone, method="e2ln")
    assert main([*words, "--no-baselines"]) == 0
    assert main(["evaluate", str(tmp_path / "run"), str(data)]) == 0


def share_found(predictor: Predictor, *, as_user: int | None = None) -> float:
    """The share of new queries of which the nearest document is the one that the user wants, or another user."""
    rows = pairs(80, seed=5)
    asked = [row if as_user is None else {**row, "user": f"u{as_user}"} for row in rows]
    queries = predictor.encode(asked, normalize=True)
    documents = predictor.encode(DOCUMENTS, of="text_pair", normalize=True)
    nearest = (queries @ documents.T).argmax(axis=1)
    return float(np.mean([DOCUMENTS[place] == row["document"] for place, row in zip(nearest, rows, strict=True)]))


def test_the_user_decides_which_document_is_found(trained_runs: TrainedRuns) -> None:
    """Without the user one of two documents of a subject fits as well as the other: half are found."""
    run = learned_similarity(trained_runs)
    predictor = load_run(run)[1]
    assert share_found(predictor) > 0.9
    assert 0.3 < share_found(predictor, as_user=0) < 0.7
    as_given, hidden, chance = (row.metrics for row in RunFolder(run).read_results().table("test"))
    assert as_given["mrr"].value > 0.95
    assert as_given["recall_at_1"].value > 0.9
    assert hidden["mrr"].value < 0.9, "attributes hidden"
    assert chance["recall_at_1"].value < 0.15
    assert as_given["mrr"].low > hidden["mrr"].high - 0.1


def rows_of(form: str, *, seed: int) -> Rows:
    return FORMS[form][0](40, seed=seed)


@pytest.mark.parametrize("form", [pytest.param("triplets", marks=pytest.mark.exhaustive), "scores"])
def test_other_rows_teach_the_same(form: str, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    run = trained_runs.copy(learned_similarity(trained_runs, form), tmp_path / "run")
    predictor = load_run(run)[1]
    rows = pairs(80, seed=6)
    others = [{**row, "document": fitting(row["query"], row["user"], is_other=True)} for row in rows]
    assert np.mean(predictor.predict(rows)["prediction"] > predictor.predict(others)["prediction"]) > 0.9
    assert predictor.columns == ("query", "document", "user"), "no negative is needed"
    assert main(["evaluate", str(run), str(trained_runs.table(rows_of(form, seed=8)))]) == 0
    small_runs.write_csv(tmp_path / "new.csv", [{**row, "user": "somebody"} for row in rows_of(form, seed=7)])
    assert main(["enrol", str(run), str(tmp_path / "new.csv")]) == 0
    assert "somebody" in load_run(run)[1].schema["user"].values
    if form == "triplets":
        table = str(small_runs.write_csv(tmp_path / "without.csv", without(rows_of(form, seed=7), "other")))
        assert main(["evaluate", str(run), table]) == 1
        assert main(["predict", str(run), table, "--output", str(tmp_path / "out.csv")]) == 0


@pytest.mark.exhaustive
def test_a_word_backbone_learns_with_items_of_documents(tmp_path: Path) -> None:
    """The item conditions the document, whose words do not say what the user wants, and the user the query."""
    rows = pairs(400, seed=2)
    for row in rows:
        row["document"], _, row["item"] = row["document"].rpartition(" ")
    data = small_runs.write_csv(tmp_path / "items.csv", rows)
    settings = ("task.pair_attributes=[item]", "training.learning_rate=0.01")
    words = similarity_command(data, tmp_path / "run", *settings, backbone=Path("bilstm"), method="concat-text")
    words[words.index("--epochs") + 1] = "6"
    words.insert(words.index("--attributes") + 2, "item")
    assert main(words) == 0
    predictor = load_run(tmp_path / "run")[1]
    query = predictor.encode("film n1 n20", user="u1")
    assert query.shape == predictor.encode("the plot n1", of="text_pair", item="great").shape
    found = RunFolder(tmp_path / "run").read_results().table("test")
    assert found[0].metrics["mrr"].value > 0.95
    assert found[1].metrics["mrr"].value < 0.85, "attributes hidden"


def test_hostile_rows_of_an_evaluation(judged: Path, backbone: Path, tmp_path: Path, fails: Fails) -> None:
    def written(changes: dict[str, Any]) -> str:
        rows = [*PREFERRED[:2], {**PREFERRED[2], **changes}, *PREFERRED[3:]]
        return str(small_runs.write_csv(tmp_path / "hostile.csv", rows))

    named = "row 3 is 'neither', which is none of first, second, tie, equal"
    assert named in fails("evaluate", judged, written({"winner": "neither"}))
    assert main(["evaluate", str(judged), written({"two": "", "winner": ""})]) == 0
    table = small_runs.write_csv(tmp_path / "without.csv", without(PREFERRED, "two"))
    assert "'two'" in fails("predict", judged, table, "--output", tmp_path / "out.csv")
    assert "'two'" in fails(*preference_command(table, tmp_path / "run", backbone=backbone))


@pytest.mark.parametrize(
    ("command", "rows", "changes", "told"),
    [
        (
            preference_command,
            PREFERRED,
            {2: {"two": ""}, 4: {"one": " "}, 6: {"winner": "nan"}},
            ["2 rows without a text left out", "1 row without a label left out"],
        ),
        (similarity_command, rows_of("triplets", seed=3), {2: {"other": ""}}, ["1 row without a text left out"]),
    ],
)
def test_rows_without_a_text_or_a_label_are_counted(
    command: Any, rows: Rows, changes: dict[int, Any], told: list[str], backbone: Path, tmp_path: Path, capsys: Any
) -> None:
    table = [row | changes.get(number, {}) for number, row in enumerate(rows)]
    data, form = small_runs.write_csv(tmp_path / "rows.csv", table), {"form": "triplets"} if "other" in rows[0] else {}
    assert main([*command(data, tmp_path / "run", backbone=backbone, **form), "--no-baselines"]) == 0
    notes = capsys.readouterr().err
    assert all(note in notes for note in told)


def changed(rows: Rows, **changes: Any) -> Rows:
    """The same rows with other cells in the third."""
    return [row | changes if number == 2 else row for number, row in enumerate(rows)]


def everywhere(rows: Rows, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Rows:
    return [row | change(row) for row in rows]


SCORES, PAIRS = rows_of("scores", seed=3), rows_of("pairs", seed=3)


@pytest.mark.parametrize(
    ("form", "rows", "message"),
    [
        ("", everywhere(PREFERRED, lambda _: {"winner": "tie"}), "no training row has a label"),
        ("", everywhere(PREFERRED, lambda _: {"winner": "first"}), "every training label is"),
        ("", everywhere(PREFERRED, lambda row: {"two": row["one"]}), "no training row has two different texts"),
        ("scores", changed(SCORES, score="4.5"), "'4.5' (1, first in row 3); scores are cosines, from -1 to 1"),
        ("scores", changed(SCORES, score="high"), "outside the scale of the task 'similarity'"),
        ("pairs", everywhere(PAIRS, lambda _: {"document": "same"}), "has the same second text"),
        ("pairs", everywhere(PAIRS, lambda row: {"document": row["query"]}), "can be used"),
        ("pairs", everywhere(PAIRS, lambda _: {"document": ""}), "has both a text"),
    ],
)
def test_tables_of_which_nothing_is_learned(
    form: str, rows: Rows, message: str, backbone: Path, tmp_path: Path, fails: Fails
) -> None:
    """Those of a form are of similarities, and the others of preferences."""
    data, run = small_runs.write_csv(tmp_path / "rows.csv", rows), tmp_path / "run"
    if form:
        command = similarity_command(data, run, backbone=backbone, form=form)
    else:
        command = preference_command(data, run, backbone=backbone)
    assert message in fails(*command)


def test_a_label_that_no_training_row_has_is_named(
    trained_runs: TrainedRuns, backbone: Path, tmp_path: Path, fails: Fails
) -> None:
    other = small_runs.write_csv(tmp_path / "other.csv", [{**PREFERRED[0], "winner": "left"}, *PREFERRED[1:]])
    words = preference_command(trained_runs.table(PREFERRED), tmp_path / "run", backbone=backbone)
    named = "is 'left', which is none of first, second, tie, equal: correct the cell"
    assert named in fails(*words, "--test", other)


SETTINGS = {
    "pairs": [
        (["data.text_pair=one"], "column one is in both texts of the pair"),
        (["data.truncation=both"], "truncation"),
        (["data.text_pair=[two, two]"], "named twice"),
        (["data.text_pair=nowhere"], "nowhere"),
        (["data.text_pair=stars"], "is the label and also a text"),
    ],
    "preference": [
        (["data.text_pair=[]"], "task 'preference' compares two texts: name one column of each"),
        (["data.text=[one, prompt]"], "task 'preference' compares two texts: name one column of each"),
        (["data.text_pair=one"], "column one is in both texts of the pair"),
        (["data.prompt=two"], "column two is a text that is compared and also the prompt or an attribute"),
        (["data.attributes=[{name: two}]"], "column two is a text that is compared"),
        (["data.prompt=winner"], "column winner is the label and also a text"),
        (["data.label=[winner, user]"], "reads one label column, 2 are named"),
        (["data.prompt=prompt", "data.chat=true"], "task 'preference' has no chat: leave it out"),
        (["data.partial_labels=true"], "task 'preference' has no partial_labels: leave it out"),
        (["method={name: linear}"], "method 'linear' compares no texts, as the task 'preference' does"),
        (["task.classes=[a, b]"], "no option classes; did you mean 'labels'? It has labels, ties, missing, score_by"),
        (["task.labels=[first]"], "class"),
        (["data.window=sentences:8x3", "data.prompt=prompt"], "has the sentences of one text: choose chunks for pairs"),
    ],
    "similarity": [
        (["data.text_pair=[]"], "compares two texts: name the column of the second one with --text-pair"),
        (["data.text=[query, title]"], "compares one column with another: name one with --text, one with --text-pair"),
        (["data.text_pair=[document, title]"], "compares one column with another"),
        (["data.text_negative=[other, title]"], "at most one with --text-negative"),
        (["data.label=user", "data.text_negative=other"], "leave label or text_negative out"),
        (["data.prompt=other"], "task 'similarity' reads no prompt"),
        (["task.form=scores"], "task.form is 'scores', and the columns that are named make pairs"),
        (["training.batch_size=1"], "pairs are learned from the other rows of a batch: give at least 2"),
        (["backbone.head_size=5"], "task 'similarity' has no head"),
        (["data.text_negative=query"], "column query is the negative and also another text"),
        (["task.pair_attributes=[item]"], "task.pair_attributes has 'item', which is none of the attributes user"),
        (["task.kind=preference", "data.text_negative=other"], "task 'preference' reads no text_negative"),
        (["method={name: linear}"], "method 'linear' compares no texts, as the task 'similarity' does"),
        (["method={name: chim}"], "method 'chim' acts on a classifier"),
        (["task.margin=0.5"], "margin is for triplets, and the rows are pairs"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "change", "message"), [(kind, *case) for kind, cases in SETTINGS.items() for case in cases]
)
def test_settings_that_cannot_be(
    kind: str, change: list[str], message: str, trained_runs: TrainedRuns, tmp_path: Path, fails: Fails
) -> None:
    data = trained_runs.table(TABLES[kind])
    words = COMMANDS[kind](data, tmp_path / "run", *change, backbone=trained_runs.backbone())
    assert message in fails(*words)
