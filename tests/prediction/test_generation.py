"""Writing by attributes the whole way: the verbs, the stock Trainer, TRL's trainer for supervised fine-tuning."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
import transformers
from commands import Outcome
from datasets import Dataset
from families import tiny_backbone
from trained_runs import TrainedRuns
from transformers import AutoTokenizer

from attribune.analysis.evaluate_texts import evaluate_texts
from attribune.apps.cli import main
from attribune.data.encoding import encode
from attribune.data.tables import read_table
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.methods import Injector
from attribune.models.auto import load_model
from attribune.models.generator import AttributeGenerator
from attribune.models.writer import Decoding, Writer
from attribune.schema import Categorical, Schema

TEXTS = {"u0": "the film was great", "u1": "a dull plot and cast", "u2": "very fine"}
ROWS = [{"ask": f"n{number}", "user": f"u{number % 3}", "text": TEXTS[f"u{number % 3}"]} for number in range(60)]
Run = Callable[..., Outcome]
LEARNING = ("--tuning", "layernorm+attention", "--batch-size", "4", "--set", "training.backbone_learning_rate=0.02")


@pytest.fixture
def data(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(ROWS)


def training(
    data: Path, output: Path | str, backbone: Path, *more: str, prompt: bool = True, epochs: int = 1
) -> list[str]:
    words = ["train", str(data), "--validation", str(data), "--task", "generation", "--text", "text"]
    words += ["--prompt", "ask"] if prompt else []
    words += ["--attributes", "user", "--backbone", str(backbone), "--output", str(output), "--epochs", str(epochs)]
    words += ["--max-length", "24", "--batch-size", "12", "--learning-rate", "0.02", *more]
    return [*words, "--set", "training.precision=float32", "method.bottleneck=8", "method.vector_size=8"]


@pytest.fixture
def run(trained_runs: TrainedRuns, data: Path) -> Path:
    """A run that learned what each user writes."""
    backbone = trained_runs.backbone("llama", is_generative=True)
    return trained_runs.trained(training(data, "", backbone, *LEARNING, epochs=4))


def values(run: Path) -> dict[str, float]:
    results = json.loads((run / "metrics.json").read_text())
    assert results["main_metric"] == "perplexity"
    return {row["name"]: row["parts"]["validation"]["perplexity"]["value"] for row in results["results"]}


def lines_of(outcome: Outcome) -> list[dict[str, Any]]:
    code, out, err = outcome
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_what_a_user_writes_is_learned(run: Path, data: Path, attribune: Run) -> None:
    found = values(run)
    own, hidden = found["injector"], found["injector, attributes hidden"]
    # A frozen head of small weights makes no probability large, however well the texts are known.
    assert own < 4
    assert hidden > 1.2 * own
    said = json.loads(attribune("evaluate", run, data, "--json")[1])
    given, without = (said["metrics"][name]["perplexity"] for name in ("as given", "attributes hidden"))
    assert given["value"] == pytest.approx(own, rel=1e-5)
    assert given["low"] <= own <= given["high"]
    assert without["value"] == pytest.approx(hidden, rel=1e-5)


@pytest.mark.slow
def test_texts_are_written_by_user(run: Path, data: Path, tmp_path: Path, attribune: Run) -> None:
    for user, text in TEXTS.items():
        expected = {"row": 1, "sample": 1, "prompt": "n3", "attributes": {"user": user}, "text": text}
        assert lines_of(attribune("generate", run, "--prompt", "n3", "--attribute", f"user={user}")) == [expected]
    found = lines_of(attribune("generate", run, data, "--beams", "2"))
    assert [(row["text"], row["prompt"]) for row in found] == [(row["text"], row["ask"]) for row in ROWS]
    for ending in ("jsonl", "parquet"):
        output = tmp_path / f"out.{ending}"
        assert attribune("generate", run, data, "--attribute", "user=u1", "--output", output)[0] == 0
        assert read_table(output)["text"] == [TEXTS["u1"]] * len(ROWS)


@pytest.mark.slow
def test_a_seed_draws_the_same_texts(run: Path, attribune: Run) -> None:
    def texts(*more: str) -> list[str]:
        return [row["text"] for row in lines_of(attribune("generate", run, "--prompt", "n3", *more))]

    drawn = ("--sample", "--temperature", "3", "--n", "4", "--max-new-tokens", "5", "--seed")
    first, again, other = (texts(*drawn, seed) for seed in ("1", "1", "2"))
    assert len(first) == 4
    assert first == again != other
    assert texts() == texts("--sample", "--temperature", "1e-300")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the model reads a prompt (ask): give it with --prompt, or a table"),
        (["--prompt", "a", "--attribute", "user"], "--attribute user: write NAME=VALUE"),
        (["--prompt", "a", "--attribute", "film=x"], "the model has no attribute film: it has user"),
        (["--prompt", "a", "--n", "2"], "n is 2, but without sample"),
        (["--prompt", "a", "--top-p", "0.5"], "temperature and top_p need random sampling"),
        (["--prompt", "a", "--sample", "--temperature", "0"], "temperature is 0.0: give a number above 0"),
        (["--prompt", "a", "--sample", "--top-p", "1.5"], "top_p is 1.5"),
        (["--prompt", "a", "--beams", "0"], "beams is 0: give at least 1"),
        (["--prompt", "a", "--output", "texts.txt"], "the ending '.txt' is not one of"),
    ],
)
def test_wrong_words_are_refused(run: Path, fails: Callable[..., str], words: list[str], message: str) -> None:
    assert message in fails("generate", run, *words)


@pytest.mark.slow
def test_a_table_without_the_columns_is_refused(run: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    table = small_runs.write_csv(tmp_path / "t.csv", [{"user": "u1", "questions": "n1"}])
    assert "'ask'" in fails("generate", run, table)


@pytest.fixture
def scorable() -> None:
    pytest.importorskip("rouge_score")
    pytest.importorskip("sacrebleu")


@pytest.mark.slow
@pytest.mark.usefixtures("scorable")
def test_what_is_written_is_scored_against_the_texts_of_a_table(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*ROWS[:30], {"ask": "n1", "user": "u1", "text": ""}]
    table = small_runs.write_csv(tmp_path / "t.csv", rows)
    capsys.readouterr()
    output = tmp_path / "out.jsonl"
    assert main(["generate", str(run), str(table), "--score", "--json", "--output", str(output)]) == 0
    shown = capsys.readouterr()
    assert "left out of 31 rows: 1 with no text" in shown.err
    assert "30 rows have a text that is among the training texts" in shown.err
    found = json.loads(shown.out)
    assert found["rows"] == 30
    names = ["rouge_1", "rouge_2", "rouge_l", "chrf", "exact_match"]
    assert list(found["metrics"]["as given"]) == list(found["metrics"]["attributes hidden"]) == names
    assert all(one["value"] == 1 for one in found["metrics"]["as given"].values())
    assert [pair["metric"] for pair in found["comparisons"]] == names
    assert all(pair["low"] <= pair["difference"] <= pair["high"] for pair in found["comparisons"])
    assert all(pair["difference"] > 0 for pair in found["comparisons"])
    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["text"] for row in written] == [row["text"] for row in ROWS[:30]]
    assert all(row["reference"] == row["text"] for row in written)
    assert [row["row"] for row in written] == list(range(1, 31))
    hidden = found["metrics"]["attributes hidden"]["exact_match"]["value"]
    assert hidden == pytest.approx(np.mean([row["hidden"] == row["reference"] for row in written]))
    assert main(["generate", str(run), str(table), "--score", "--sample", "--n", "2"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("30 rows, 2 texts for each\n95 % intervals ")
    assert "as given against attributes hidden, rouge_l: +" in text


@pytest.mark.slow
@pytest.mark.usefixtures("scorable")
def test_texts_are_scored_in_python(run: Path, data: Path) -> None:
    found = evaluate_texts(run, data, rows=6, decoding=Decoding(max_new_tokens=1))
    assert found.rows == 6
    assert found.scores["as given"]["exact_match"].value() == 0
    assert 0 < found.scores["as given"]["rouge_1"].value() < 1
    assert repr(found) == found.text()
    assert "<table>" in found._repr_html_()
    (first, *_) = found.records()
    assert list(first) == ["row", "sample", "prompt", "attributes", "text", "reference", "hidden"]
    assert first["attributes"] == {"user": "u0"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "--json is for the scores of --score"),
        (["--score", "--prompt", "a"], "leave --prompt and --attribute out"),
        (["--score", "--attribute", "user=u1"], "leave --prompt and --attribute out"),
    ],
)
def test_words_that_scores_do_not_have_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["generate", str(run), *words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("scorable")
def test_texts_of_other_runs_and_empty_tables_are_not_scored(
    run: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="has the task 'classification', which writes no text: use `evaluate"):
        evaluate_texts(trained_runs("injector"))
    empty = small_runs.write_csv(tmp_path / "t.csv", [{"ask": "n1", "user": "u1", "text": " "}])
    with pytest.raises(DataError, match="no row has both a text and a label: check the columns"):
        evaluate_texts(run, empty)


OTHER = pytest.mark.exhaustive  # each family and each kind of table is met without these


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "prompt"),
    [
        ("gpt2", False),
        ("t5", True),
        *(
            pytest.param(family, prompt, marks=OTHER)
            for family, prompt in (("gpt2", True), ("t5", False), ("starcoder2", False))
        ),
    ],
)
def test_every_family_goes_the_whole_way(
    trained_runs: TrainedRuns,
    data: Path,
    tmp_path: Path,
    attribune: Run,
    fails: Callable[..., str],
    family: str,
    prompt: bool,
) -> None:
    backbone = trained_runs.backbone(family, is_generative=True)
    run = trained_runs.trained(training(data, "", backbone, prompt=prompt))
    assert all(math.isfinite(value) for value in values(run).values())
    assert re.search(r"(?m)^task +generation$", attribune("describe", run)[1])
    assert len(lines_of(attribune("generate", run, data, "--max-new-tokens", "3"))) == len(ROWS)
    assert attribune("predict", run, data, "--output", tmp_path / "p.jsonl")[0] == 0
    assert read_table(tmp_path / "p.jsonl")["tokens"] == [len(row["text"].split()) + 1 for row in ROWS]
    assert "no difference shown" in attribune("compare", run, run)[1]
    if not prompt:
        words = ("--prompt", "the", "--attribute", "user=u0", "--max-new-tokens", "2")
        assert attribune("generate", run, *words)[0] == 0
    if family == "gpt2":
        said = fails("generate", run, "--prompt", "a", "--max-new-tokens", "67")
        assert "are more than the 67 that the backbone takes: lower max_new_tokens" in said
    model = load_model(run / "model")
    for options in ({"batch_size": 0}, {"precision": "half"}, {"device": "gpu"}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            Writer(model, **options)
    writer = Writer(model)
    ids = writer.prompt_ids("a")
    assert writer.room(ids) == (67 - len(ids) if family == "gpt2" else None)


@pytest.mark.slow
def test_a_chat_template_is_read_and_written(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, attribune: Run
) -> None:
    llama = trained_runs.backbone("llama", is_generative=True)
    tokenizer = AutoTokenizer.from_pretrained(llama)
    turn = "{% for m in messages %}[CLS] {{ m['content'] }} [SEP] {% endfor %}"
    tokenizer.chat_template = turn + "{% if add_generation_prompt %}[CLS] {% endif %}"
    transformers.AutoModelForCausalLM.from_pretrained(llama).save_pretrained(tmp_path / "chat")
    tokenizer.save_pretrained(tmp_path / "chat")
    run = tmp_path / "run"
    assert main(training(data, run, tmp_path / "chat", "--chat", "--no-baselines", *LEARNING, epochs=4)) == 0
    (row,) = lines_of(attribune("generate", run, "--prompt", "n3", "--attribute", "user=u1"))
    assert row["text"] == TEXTS["u1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--label", "user"], "task 'generation' learns the text itself: leave label and partial_labels out"),
        (["--method", "linear"], "method 'linear' writes no text"),
        (["--method", "upa"], "acts at the point pool, which a model that writes text does not have"),
        (["--set", "backbone.pooling=mean"], "has no document vector: leave backbone.pooling out"),
        (["--set", "data.window=chunks:8"], "the window 'chunks:8x8' cannot be used to write texts"),
        (["--prompt", "text"], "column text is the text that is written and also a prompt or an attribute"),
        (["--attributes", "text"], "column text is the text that is written and also a prompt or an attribute"),
        (["--compare", "attributes-only"], "method 'attributes-only' writes no text"),
    ],
)
def test_what_a_writing_model_has_no_use_for_is_refused(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, fails: Callable[..., str], more: list[str], message: str
) -> None:
    words = training(data, tmp_path / "run", trained_runs.backbone("llama", is_generative=True))
    words = [word for word in words if not word.startswith("method.")] if "--method" in more else words
    assert message in fails(*words, *more)
    assert not (tmp_path / "run").exists()


def test_a_prompt_is_for_writing_alone(data: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    words = ["train", data, "--text", "text", "--output", tmp_path / "run", "--attributes", "user"]
    assert "task 'classification' reads no prompt" in fails(*words, "--label", "user2", "--prompt", "ask")
    cure = "name it with --label, or choose the task generation"
    assert f"no label column was found in the table: {cure}" in fails(*words)


def prepared(folder: Path) -> tuple[AttributeGenerator, Dataset]:
    """An untrained model over a tiny Llama, and encoded rows."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    table = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    schema = Schema.fit(table, [Categorical("user")])
    text = TextInput.of("text", prompt="ask", separator=" ")
    torch.manual_seed(0)
    model = AttributeGenerator.build(
        tiny_backbone("llama", is_generative=True),
        schema,
        method=Injector(bottleneck=8, vector_size=8, attribute_dropout=0.0),
        tokenizer=tokenizer,
        text_input=text,
    )
    return model, encode(table, schema, tokenizer, text=text, encoder=model.row_encoder())


OPTIONS: dict[str, Any] = {
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
    "dataloader_pin_memory": False,
    "seed": 3,
    "learning_rate": 2e-2,
    "logging_strategy": "no",
    "save_strategy": "no",
}


@pytest.mark.slow
def test_the_stock_trainer_divides_by_the_labels_of_all_accumulated_batches(
    trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    found = []
    for batch, parts in ((12, 1), (3, 4)):
        model, rows = prepared(trained_runs.backbone("llama", is_generative=True))
        arguments = transformers.TrainingArguments(
            str(tmp_path / str(parts)),
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=parts,
            max_steps=3,
            optim="sgd",
            max_grad_norm=0.0,
            **OPTIONS,
        )
        transformers.Trainer(model, arguments, train_dataset=rows, data_collator=model.collator()).train()
        found.append(model.state_dict())
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")
def test_supervised_fine_tuning_with_trl(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    model, rows = prepared(trained_runs.backbone("llama", is_generative=True))
    table = model.method.tables[0]
    before = table.detach().clone()
    arguments = trl.SFTConfig(
        str(tmp_path),
        per_device_train_batch_size=12,
        max_steps=2,
        max_length=None,
        remove_unused_columns=False,
        bf16=False,
        **OPTIONS,
    )
    trainer = trl.SFTTrainer(
        model, arguments, train_dataset=rows, data_collator=model.collator(), processing_class=model.tokenizer
    )
    batch = model.collator()([rows[row] for row in range(6)])
    others = {**batch, "attribute_ids": batch["attribute_ids"].flip(0)}
    with torch.no_grad():
        losses = [trainer.compute_loss(model, dict(given)).item() for given in (batch, others)]
        expected = [model(**given).loss.item() for given in (batch, others)]
    assert losses == pytest.approx(expected, rel=1e-4)
    assert abs(losses[0] - losses[1]) > 1e-6
    trainer.train()
    moved = (table - before).abs().sum(dim=1)
    assert ((moved > 0) == torch.tensor([False] + [True] * (len(moved) - 1))).all()
    assert trainer.state.log_history[-1]["train_loss"] > 0


@pytest.mark.slow
def test_a_writer_takes_rows_in_any_order_and_number(run: Path) -> None:
    writer = Writer(load_model(run / "model"), batch_size=4)
    asked, users = [f"n{n}" for n in range(7)], [f"u{n % 3}" for n in range(7)]
    together, _ = writer.write(asked, {"user": users})
    alone = [writer.write([ask], {"user": [user]})[0][0] for ask, user in zip(asked, users, strict=True)]
    assert together == alone == [[TEXTS[user]] for user in users]
    several, _ = writer.write(asked, {"user": users}, Decoding(beams=3, n=3))
    assert [texts[0] for texts in several] == [TEXTS[user] for user in users]
    assert all(len(texts) == 3 for texts in several)
    _, report = writer.write(["n1", "n2"], {"user": ["nobody", None]})
    assert any("values not in the vocabulary: 1" in line for line in report.lines())
    assert writer.write([], {})[0] == []


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_page_of_a_run_that_writes(run: Path, data: Path, tmp_path: Path) -> None:
    for more in ([], [str(data)]):
        assert main(["report", str(run), *more, "--output", str(tmp_path / "page.html")]) == 0
        page = (tmp_path / "page.html").read_text()
        titles = ("<h2>Training</h2>", "<h2>By value of user</h2>", "Confusion matrix")
        assert [title in page for title in titles] == [True, True, False]
    assert "attributes hidden" in page
