"""The method `history`: which rows are read in front of a text, the ids that a model gets, files, and the verbs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import small_runs
import small_tokenizers
from commands import assert_verbs_run
from fastapi.testclient import TestClient
from trained_runs import TrainedRuns

from attribune import AttributeModel, Classification, Panel, TextInput, load_tokenizer
from attribune.analysis.evaluate import evaluate
from attribune.apps.cli import main
from attribune.apps.serve import create_app, load_models
from attribune.core.progress import Reporter
from attribune.data.readers.text import TextEncoder
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.models.features import SentenceVectors
from attribune.models.predictor import Predictor
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.schema.schema import Revision
from attribune.training.train import train
from attribune_lab.history.method import History
from attribune_lab.history.reader import HistoryEncoder
from attribune_lab.history.rows import Histories

TEXT = TextInput.of("text")
TOKENIZER = small_tokenizers.only_words(["text", "→", "good", "bad", ";", *map(str, range(40))])
KINDS = [Categorical("user"), MultiLabel("tags")]
TRAINED = [{**row, "day": f"2024-{1 + n % 12:02d}-{1 + n % 28:02d}"} for n, row in enumerate(small_runs.reviews(90))]
NEW = [{**row, "day": ""} for row in small_runs.reviews(12, seed=5, users=9)]


def command(runs: TrainedRuns, run: Path = Path("run")) -> list[str]:
    return small_runs.train_command(runs.table(TRAINED), run, backbone=runs.backbone(), method="history")


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return trained_runs("history", "--no-baselines", rows=TRAINED)


@pytest.fixture
def timed(trained_runs: TrainedRuns) -> Path:
    return trained_runs("history", "method.time=day", "--tuning", "frozen", "--no-baselines", rows=TRAINED)


@pytest.fixture
def new(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(NEW)


def memory_of(run: Path) -> Histories:
    return load_run(run)[1].model.memory


def table_of(count: int, *, seed: int) -> dict[str, list[Any]]:
    chance = np.random.default_rng(seed)
    names = ["a", "b", "c", None]
    return {
        "text": [f"text {chance.integers(count // 2)}" for _ in range(count)],
        "user": [names[chance.integers(4)] for _ in range(count)],
        "tags": [[str(tag) for tag in chance.choice(["x", "y", "z"], chance.integers(3))] for _ in range(count)],
        "when": [int(chance.integers(10)) for _ in range(count)],
        "label": [str(chance.choice(["good", "bad"])) for _ in range(count)],
    }


class Vectors:
    """Of a text and a number, drawn by the number."""

    def load(self) -> Any:
        pass

    def to(self, device: Any) -> None:
        pass

    def of_texts(self, texts: Any) -> Any:
        vectors = np.stack([np.random.default_rng(int(text.split()[1])).normal(size=5) for text in texts])
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def empty(table: dict[str, list[Any]], *, kinds: Sequence[Any] = KINDS, **options: Any) -> Histories:
    return Histories.of_none(History(**options), Schema.fit(table, kinds), vectors=Vectors())


def fitted(table: dict[str, list[Any]], **options: Any) -> Histories:
    return empty(table, **options).added(table, text=TEXT, labels=["label"])


def reader_of(histories: Histories) -> HistoryEncoder:
    return HistoryEncoder(TextEncoder(TOKENIZER, limit=300), histories)


def read(reader: HistoryEncoder, table: dict[str, list[Any]], *, hidden: bool = False) -> list[list[int]]:
    """The ids of the rows behind their histories."""
    schema = reader.histories.schema
    ids = np.zeros((len(table["text"]), schema.slots), dtype=np.int64) if hidden else schema.encode(table)[0]
    return reader.rows(TEXT, table).with_attribute_ids(ids).pieces().rows.inputs


@pytest.mark.parametrize("attribute", ["user", "tags"])
@pytest.mark.parametrize("time", ["when", None])
def test_the_rows_are_those_of_a_slow_loop(attribute: str, time: str | None) -> None:
    table, k = table_of(80, seed=3), 4
    histories = fitted(table, attribute=attribute, time=time, k=k)
    stored = [row for row in range(80) if table[attribute][row]]
    assert histories.texts == [table["text"][row] for row in stored]
    new = table_of(40, seed=4)
    ids = histories.schema.encode(new)[0]
    found = 0
    for row, one in enumerate(reader_of(histories).rows(TEXT, new).inputs):
        mine = new[attribute][row]
        values = set(mine) if isinstance(mine, list) else {mine} - {None}
        near = []
        for place, number in enumerate(stored):
            theirs = table[attribute][number]
            same_value = bool(values & (set(theirs) if isinstance(theirs, list) else {theirs}))
            if not same_value or table["text"][number] == new["text"][row]:
                continue
            if time is None:
                two = Vectors().of_texts([table["text"][number], new["text"][row]])
                near.append((float(two[0].astype(np.float16).astype(float) @ two[1].astype(float)), place))
            elif table["when"][number] < new["when"][row]:
                near.append((table["when"][number], place))
        expected = [place for _, place in sorted(near)[-k:]]
        chosen = histories.nearest(ids[row], mark=one.mark, query=one.query)
        if time is None:  # equal texts of one value are equally near
            assert [histories.texts[place] for place in chosen] == [histories.texts[place] for place in expected]
        else:
            assert chosen == expected
        found += len(chosen)
    assert found > 40


def test_the_ids_are_the_rows_the_nearest_last_and_the_text() -> None:
    table = {
        "text": ["text 1", "text 2 2 2 2 2 2 2", "text 3", "text 4", "text 5"],
        "user": ["a", "a", "b", "a", "a"],
        "tags": [["x"]] * 5,
        "when": ["1", "3", "2", "2.5", "0"],
        "label": ["good", "bad", "good", "good", "bad"],
    }
    new = {"text": ["text 9", "text 4", "text 9", "text 9", "text 9"], "user": ["a", "a", "b", None, "who"]}
    new |= {"tags": [["x"]] * 5, "when": [2.7, None, 2, None, None]}
    reader = reader_of(fitted(table, time="when", k=3, tokens=24))
    assert [TOKENIZER.decode(ids) for ids in read(reader, new)] == [
        "[CLS] text 5 → bad ; text 1 → good ; text 4 → good ; text 9 [SEP]",
        "[CLS] text 5 → bad ; text 1 → good ; text 2 2 2 2 → bad ; text 4 [SEP]",  # cut to 8 ids, and not itself
        "[CLS] text 9 [SEP]",  # no row is earlier
        "[CLS] text 9 [SEP]",
        "[CLS] text 9 [SEP]",
    ]
    assert read(reader, new, hidden=True) == [one.ids for one in reader.rows(TEXT, new).inputs]
    rows = reader.rows(TEXT, new).with_attribute_ids(np.zeros((5, 2), dtype=np.int64)).pieces().rows
    assert rows.pieces().rows is rows


def test_training_rows_never_read_their_own_label() -> None:
    table = table_of(60, seed=8)
    for ids, text in zip(read(reader_of(fitted(table, k=60, tokens=2000)), table), table["text"], strict=True):
        whole = TOKENIZER.decode(ids)
        assert f"{text} →" not in whole
        assert whole.endswith(f"{text} [SEP]")


def test_rows_without_history_at_random() -> None:
    table = table_of(60, seed=8)
    reader = reader_of(fitted(table, attribute_dropout=0.5)).for_training(seed=3)
    first = read(reader, table)
    shortest = sum(len(one) == 4 for one in first)
    unknown = sum(user is None for user in table["user"])
    assert unknown + 10 < shortest < 50
    assert read(reader.for_training(seed=3), table) == first


def test_labels_are_texts() -> None:
    table = {"text": ["text 1", "text 2"], "user": ["a", "a"], "tags": [["x"], ["y"]]}
    table |= {"look": [3.0, None], "score": [0.123456, 2.5]}  # type: ignore[dict-item]
    found = empty(table).added(table, text=TEXT, labels=["look", "score"])
    assert found.labels == ["look: 3, score: 0.1235", "score: 2.5"]
    assert empty(table).added(table, text=TEXT, labels=["score"], missing=["2.5"]).labels == ["0.1235"]


def test_rows_that_could_not_be_forgotten_are_not_stored() -> None:
    table = table_of(80, seed=5)
    found = fitted(table, kinds=[Categorical("user", max_values=2), MultiLabel("tags")], attribute="tags")
    known = {None, *found.schema["user"].values}
    stay = [row for row in range(80) if table["tags"][row] and table["user"][row] in known]
    assert found.texts == [table["text"][row] for row in stay]
    assert len(stay) < sum(map(bool, table["tags"]))


def test_values_that_go_take_their_rows_along() -> None:
    table = table_of(80, seed=5)
    histories = fitted(table, attribute="tags", time="when")
    rows = [row for row in range(80) if table["tags"][row]]
    less = histories.revised(Revision.removing(histories.schema, {"user": ("b",)}))
    stay = [row for row in rows if table["user"][row] != "b"]
    assert less.texts == [table["text"][row] for row in stay]
    ids = less.schema.encode({name: [table[name][row] for row in stay] for name in ("user", "tags")})[0]
    assert less.attribute_ids.tolist() == ids.tolist()
    more = less.revised(Revision.adding(less.schema, {"user": {"b": 3}, "tags": {"w": 1}}))
    assert more.attribute_ids.tolist() == less.attribute_ids.tolist()
    assert more.schema.names == histories.schema.names
    none = histories.revised(Revision.removing(histories.schema, {"tags": ("x", "y", "z")}))
    assert len(none) == 0


@pytest.mark.slow
def test_a_run_reads_them_wherever_it_is_used(run: Path, new: Path, tmp_path: Path) -> None:
    results = RunFolder(run).read_results()
    assert [one.name for one in results.models[:2]] == ["history", "history, attributes hidden"]
    rows = pd.read_csv(new, keep_default_na=False)[["text", "user"]]
    predictor = load_run(run)[1]
    before = predictor.logits(rows)[0]
    hidden = predictor.logits(rows, hide_attributes=True)[0]
    known = rows["user"].isin(predictor.schema["user"].values).to_numpy()
    assert 0 < known.sum() < len(rows)
    assert np.abs(before - hidden)[known].max() > 1e-4
    np.testing.assert_allclose(before[~known], hidden[~known], atol=1e-6)
    model = AttributeModel.from_pretrained(shutil.copytree(run, tmp_path / "copy") / "model")
    np.testing.assert_allclose(Predictor(model).logits(rows)[0], before, atol=1e-6)
    assert main(["predict", str(run), str(new), "--output", str(tmp_path / "out.jsonl")]) == 0
    told = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    expected = predictor.predict(rows)["probability_good"]
    assert [one["probability_good"] for one in told] == pytest.approx(expected.tolist(), abs=1e-5)
    with TestClient(create_app(load_models([str(run)]))) as client:
        body = [{"text": text, "attributes": {"user": user}} for text, user in rows.itertuples(index=False)]
        answer = client.post("/v1/predict", json={"rows": body})
    assert answer.status_code == 200
    served = [one["output"]["probability_good"] for one in answer.json()["predictions"]]
    assert served == pytest.approx(expected.tolist(), abs=1e-5)
    stored = pq.read_table(run / "model" / "history.parquet")
    assert set(stored["text"].to_pylist()) < {row["text"] for row in TRAINED}
    assert len(stored) == results.rows["train"]


@pytest.mark.slow
def test_hidden_it_is_the_plain_model(run: Path) -> None:
    model = load_run(run)[1].model
    config = type(model.config).from_dict({**model.config.to_dict(), "method": {"name": "none"}, "learned": None})
    plain = AttributeModel(config, schema=model.schema, tokenizer=model.tokenizer).eval()
    plain.load_state_dict(model.state_dict())
    rows = {"text": ["the film was great", "awful"], "user": [None, "nobody"]}
    found = Predictor(model).logits(rows)[0]
    np.testing.assert_allclose(Predictor(plain).logits({"text": rows["text"]})[0], found, atol=1e-6)


@pytest.mark.slow
def test_the_vectors_are_those_of_the_backbone_before_training(run: Path, trained_runs: TrainedRuns) -> None:
    memory = memory_of(run)
    vectors = SentenceVectors(str(trained_runs.backbone())).of_texts(memory.texts[:5])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(memory.order[:5].astype(np.float32), vectors, atol=1e-3)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_verbs(run: Path, new: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    one_row = ["explain", str(run), str(new), "--row", "2", "--output", str(tmp_path / "row.html")]
    assert_verbs_run(run, new, tmp_path, one_row)
    for words, message in (
        (["export", str(run), "--format", "onnx"], "which no other program puts in front of a text"),
        (["export", str(run), "--for", "user=u1"], "which no other program puts in front of a text"),
        (["ablate", str(run), str(new)], "acts in no layer of a backbone"),
    ):
        assert main(words) == 1
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_forgotten_value_has_no_row_left(run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    rows = pd.DataFrame(TRAINED)
    texts = set(rows.loc[rows["user"] == "u1", "text"])
    others = rows.loc[(rows["user"] != "u1") & ~rows["text"].isin(texts), ["text", "user"]]
    before = load_run(run)[1].logits(others)[0]
    assert texts & set(pq.read_table(run / "model" / "history.parquet")["text"].to_pylist())
    assert main(["forget", str(run), "--attribute", "user", "--value", "u1"]) == 0
    stored = pq.read_table(run / "model" / "history.parquet")
    assert not texts & set(stored["text"].to_pylist())
    assert len(stored) == sum(load_run(run)[1].schema["user"].counts[1:])
    np.testing.assert_allclose(load_run(run)[1].logits(others)[0], before, atol=1e-6)


@pytest.mark.slow
def test_rows_of_new_values_are_added_and_taken_back(timed: Path, tmp_path: Path) -> None:
    run = shutil.copytree(timed, tmp_path / "run")
    old = pd.DataFrame(TRAINED)
    new = pd.DataFrame(small_runs.reviews(60, seed=7, users=10)).assign(day="2025-01-05")
    new.to_csv(tmp_path / "new.csv", index=False)
    before = load_run(run)[1].logits(old)[0]
    stranger = {"text": ["great film"], "user": ["u9"]}
    alone = load_run(run)[1].logits(stranger)[0]
    files = {path.name: path.read_bytes() for path in (run / "model").iterdir()}
    assert main(["enrol", str(run), str(tmp_path / "new.csv")]) == 0
    assert np.abs(load_run(run)[1].logits(stranger)[0] - alone).max() > 1e-5
    np.testing.assert_array_equal(load_run(run)[1].logits(old)[0], before)
    memory = memory_of(run)
    ids = memory.attribute_ids[memory.order > np.datetime64("2025-01-01").astype("datetime64[us]").astype(int)]
    assert {memory.schema["user"].values[number - 1] for number in ids[:, 0]} == {"u7", "u8", "u9"}
    assert main(["enrol", str(run), "--undo"]) == 0
    again = {path.name: path.read_bytes() for path in (run / "model").iterdir()}
    assert {name for name in files if files[name] != again[name]} <= {"README.md", "config.json", "checksums.json"}


@pytest.mark.slow
def test_enrolment_refuses(timed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(timed, tmp_path / "run")
    new = pd.DataFrame(small_runs.reviews(60, seed=7, users=10))
    for table, more, message in (
        (new, ["--attributes", "tags"], "reads the rows of 'user', not of 'tags'"),
        (new, [], "no column 'day'"),
        (new.assign(day="soon"), [], "the time 'soon' is not an ISO date"),
        (new.assign(user="u1", day="2025-01-05"), [], "have no new value"),
    ):
        table.to_csv(tmp_path / "new.csv", index=False)
        assert main(["enrol", str(run), str(tmp_path / "new.csv"), *more]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_time(timed: Path) -> None:
    predictor = load_run(timed)[1]
    assert memory_of(timed).order.dtype == np.int64
    row = {"text": ["great film"], "user": ["u0"]}
    now, later = predictor.logits(row)[0], predictor.logits(row | {"day": ["2030-01-01"]})[0]
    np.testing.assert_array_equal(now, later)
    first = predictor.logits(row | {"day": ["2000-01-01"]})[0]
    np.testing.assert_array_equal(first, predictor.logits(row, hide_attributes=True)[0])
    assert np.abs(first - now).max() > 1e-5
    assert np.array_equal(predictor.logits(row | {"day": [None]})[0], now)
    notes = evaluate(timed, pd.DataFrame(row | {"stars": ["good"]})).notes
    assert "there is no column 'day', so that each row reads a history as of now" in notes
    panel = Panel.of(predictor, "user")
    asked = [panel.predict(predictor, row | more)["probability_good"] for more in ({}, {"day": ["2000-01-01"]})]
    assert abs(asked[0] - asked[1]).max() > 1e-6
    with pytest.raises(DataError, match="column 'day', row 1: the time 'x' is not an ISO date"):
        predictor.logits(row | {"day": ["x"]})


@pytest.mark.slow
@pytest.mark.exhaustive
def test_runs_over_one_backbone_share_batches(timed: Path, trained_runs: TrainedRuns) -> None:
    other = trained_runs("none", "--tuning", "frozen", "--no-baselines")
    group = PredictorGroup.from_pretrained({"history": timed, "none": other})
    rows = {"text": ["great film", "awful"], "user": ["u0", "u3"]}
    found = group.predict({"history": rows, "none": rows})
    for name in group:
        expected = group[name].predict(rows)["probability_good"]
        assert found[name]["probability_good"] == pytest.approx(expected, abs=1e-6)
    assert group.together_with("history") == ["history", "none"]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_pairs_have_their_segments(trained_runs: TrainedRuns) -> None:
    words = [*command(trained_runs), "method.tokens=21", "--no-baselines"]
    words[words.index("--text") + 2 : words.index("--text") + 2] = ["--text-pair", "price"]
    predictor = load_run(trained_runs.trained(words))[1]
    pair = {"text": ["great film"], "price": ["3"]}
    rows, plain = (predictor.encode_rows(pair | {"user": [user]}).pieces().rows for user in ("u1", None))
    more = len(rows.inputs[0]) - len(plain.inputs[0])
    assert 0 < more <= 21
    assert rows.segment_starts[0] == plain.segment_starts[0] + more


@pytest.mark.slow
@pytest.mark.exhaustive
def test_labels_of_several_aspects_are_read(trained_runs: TrainedRuns) -> None:
    words = [*command(trained_runs), "method.tokens=60", "--multi-label", "tags:;", "--max-length", "6"]
    place = words.index("stars")
    words[place : place + 1] = ["look", "taste"]
    run = trained_runs.trained([*words, "--no-baselines"])
    labels = set(pq.read_table(run / "model" / "history.parquet")["label"].to_pylist())
    assert "look: 4, taste: 1" in labels


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_control_and_a_backbone_without_pretraining(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    assert main([*command(trained_runs, tmp_path / "shuffled"), "--shuffled", "--no-baselines"]) == 0
    assert main(["evaluate", str(tmp_path / "shuffled"), str(trained_runs.table(TRAINED))]) == 0
    words = [*command(trained_runs, tmp_path / "words"), "method.time=day", "--no-baselines"]
    words[words.index("--backbone") + 1] = "cnn"
    assert main(words) == 0


class Stopped(Reporter):
    """Interrupts after a number of steps."""

    def step(self, *, done: int, loss: float | None, epoch: float | None = None) -> None:
        if done == 5:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_interrupted_training_goes_on(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    words = ["training.evaluate_every=3", "method.attribute_dropout=0.4", "training.steps=7", "--no-baselines"]
    assert main([*command(trained_runs, tmp_path / "whole"), *words]) == 0
    recipe = RunFolder(tmp_path / "whole").read_recipe()
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "halves", reporter=Stopped(), baselines=False)
    assert (tmp_path / "halves" / "checkpoints").is_dir()
    train(recipe, tmp_path / "halves", resume=True, baselines=False)
    for name in ("model.safetensors", "history.parquet", "history.safetensors"):
        one, two = ((tmp_path / run / "model" / name).read_bytes() for run in ("whole", "halves"))
        assert one == two


@pytest.mark.slow
def test_a_training_that_continues_keeps_the_rows(run: Path, tmp_path: Path) -> None:
    small_runs.write_csv(tmp_path / "more.csv", small_runs.reviews(60, seed=11, users=9))
    words = ["train", str(tmp_path / "more.csv"), "--continue", str(run), "--epochs", "1", "--no-baselines"]
    assert main([*words, "--output", str(tmp_path / "run")]) == 0
    one, two = (pq.read_table(path / "model" / "history.parquet") for path in (run, tmp_path / "run"))
    assert two.slice(0, len(one)).equals(one)
    assert len(two) == len(one) + RunFolder(tmp_path / "run").read_results().rows["train"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["method.k=0"], "history: k is 0, it must be above 0"),
        (["method.attribute=film"], "attribute is 'film', which is none of the attributes user: name one"),
        (["method.attribute=' '"], "attribute is ' ', which is none of the attributes user: name one"),
        (["method.time=3"], "time is 3: give the name of a column, or null for similar texts"),
        (["method.separator=3"], "separator is 3: give a text"),
        (["method.time=stars"], "time is 'stars', which is the label and would be read"),
        (["method.time=text2"], "no column 'text2'"),
        (["method.time=user"], "the time 'u"),
        (["method.tokens=9"], "leaves 3 ids for each earlier row, of which its label takes 3: raise method.tokens"),
        (["method.tokens=60"], "the window 'head:32' is 32 tokens with special tokens, but the backbone takes"),
        (["data.window=chunks:8x4"], "a text is read at once, behind its history"),
        (["method.speed=3"], "method 'history' has no option speed"),
        (["--backbone", "bilstm"], "similar texts are found by a pretrained backbone, but 'bilstm' is not"),
        (["--backbone", "hierarchical", "--set", "method.time=day"], "read the sentences of one text"),
        (["--method", "history+injector"], "'history' is for a plain model: leave the others out"),
    ],
)
def test_settings_that_cannot_be(
    trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    words = command(trained_runs, tmp_path / "run")
    if more[0] == "--method":
        words = words[: words.index("method.k=3")]
    assert main([*words, *more]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_without_attributes_or_rows(
    trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command(trained_runs, tmp_path / "run")
    place = words.index("--attributes")
    del words[place : place + 2]
    assert main(words) == 1
    assert "needs attributes" in capsys.readouterr().err
    name = str(trained_runs.backbone())
    schema = Schema.fit({"user": ["a"]}, [Categorical("user")])
    model = AttributeModel.build(
        name, schema, task=Classification(classes=2), method=History(tokens=20), tokenizer=load_tokenizer(name)
    )
    with pytest.raises(ConfigError, match="reads rows that are stored with the model, and this one has none"):
        model.row_encoder(TEXT)
    model.memory = Histories.of_none(History(tokens=20), schema)
    assert Predictor(model, text_input=TEXT).logits({"text": ["a"], "user": ["a"]})[0].shape == (1, 2)
    with pytest.raises(ConfigError, match="give vectors, or name a column of times"):
        model.memory.added({"text": ["a"], "user": ["a"], "y": ["b"]}, text=TEXT, labels=["y"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["history.parquet", "history.safetensors"])
@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_damaged_files(run: Path, tmp_path: Path, name: str, damage: str) -> None:
    model = shutil.copytree(run / "model", tmp_path / "model")
    if damage == "gone":
        (model / name).unlink()
    elif damage == "cut":
        (model / name).write_bytes((model / name).read_bytes()[:-40])
    else:
        pq.write_table(pq.read_table(model / "history.parquet").slice(3), model / "history.parquet")
    with pytest.raises(ModelFolderError, match="history"):
        AttributeModel.from_pretrained(model)
    if damage == "gone" and name == "history.parquet":
        with pytest.raises(ConfigError, match="this one has none"):
            Predictor(AttributeModel.from_pretrained(model, verify=False))
    else:
        with pytest.raises(ModelFolderError, match="history"):
            AttributeModel.from_pretrained(model, verify=False)
