"""Nine runs over one backbone in one process: throughput of batches of all of them, and memory.

    python benchmarks/many_tasks.py [--texts 1800] [--rounds 7] [--steps 20]

Nine adapters of 64 with layer norms of their own (Houlsby et al. 2019) over MiniLM, trained for a few steps each on
film snippets. The same texts are scored by turns: `mixed`, a ninth of them for each run, in shared batches; `one run`,
all for the first; `apart`, a ninth for each, run by run; `plain`, by our model without a method; `bare`, by the stock
class of transformers in the same batches. Once all texts are given at a time, and once `--lot` of them, as many as a
service meets. A ratio is the median over the rounds of texts per second of `mixed` by that of the other case.
`difference` is the largest one, in a probability, to what `attribune predict` writes for each run.

Memory is what processes of their own hold for themselves and as their part of what they share (PSS), before and after
the nine have predicted: one process with the nine over one backbone, one with nine models that were tuned in full, and
nine processes with one adapter each. Other work on the machine makes the figures worthless. Writes
benchmarks/results/many_tasks.json.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import Child, arguments, by_turns, ratio, seconds, snippets, write_csv, write_result
from snippets_run import COLUMNS, train
from yardstick import BarePredictor

from attribune import AttributeModel, Plain, Predictor, PredictorGroup, Schema, load_tokenizer
from attribune.apps.cli import main as attribune
from attribune.backbones.loading import DEFAULT_BACKBONE, locate_backbone

RUNS = 9


def names() -> list[str]:
    return [f"task-{number}" for number in range(RUNS)]


def train_all(folder: Path, steps: int) -> None:
    """Train the adapters, and one model in full, of which there are nine copies."""
    rows = snippets()
    exact = ("--set", "training.precision=float32")  # as the group computes
    for number, name in enumerate(names()):
        data = write_csv(folder / "train.csv", COLUMNS, rows[number::RUNS][: 40 * steps])
        train(data, folder / name, steps, "--method", "adapter", "--set", f"training.seed={number}", *exact)
    train(data, folder / "full-0", steps, "--method", "none", "--tuning", "full", *exact)
    for number in range(1, RUNS):
        shutil.copytree(folder / "full-0", folder / f"full-{number}")


def plain(group: Any) -> Predictor:
    """Our model of the backbone without a method, which nobody trained."""
    task, name = group[names()[0]].task, str(locate_backbone(DEFAULT_BACKBONE))
    model = AttributeModel.build(
        name, Schema([]), task=task, method=Plain(), tuning="frozen", tokenizer=load_tokenizer(name)
    )
    return Predictor(model, text_input=group[names()[0]].text_input, device="cpu")


def throughput(folder: Path, texts: list[dict[str, Any]], lot: int, rounds: int) -> dict[str, Any]:
    """Texts per second of the cases, and the ratios."""
    group = PredictorGroup.from_pretrained({name: folder / name for name in names()}, device="cpu")
    backbone, first = plain(group), group[names()[0]]
    bare = BarePredictor(first)
    columns = {name: [row[name] for row in texts] for name in COLUMNS}
    rows = first.encode_rows(columns)
    own = {name: rows.take(np.arange(number, len(texts), RUNS)) for number, name in enumerate(names())}

    def lots(size: int) -> list[Any]:
        return [np.arange(start, min(start + size, len(texts))) for start in range(0, len(texts), size)]

    def share(part: Any, number: int) -> Any:
        return rows.take(part[part % RUNS == number])

    found: dict[str, Any] = {}
    for name, size in (("all texts", len(texts)), (f"{lot} texts at a time", lot)):
        parts = lots(size)
        mixed = [{task: share(part, number) for number, task in enumerate(names())} for part in parts]
        whole = [rows.take(part) for part in parts]
        jobs = {
            "mixed": lambda mixed=mixed: [group.score(part) for part in mixed],
            "one run": lambda whole=whole: [first.score(part) for part in whole],
            "apart": lambda mixed=mixed: [group[task].score(own) for part in mixed for task, own in part.items()],
            "plain": lambda whole=whole: [backbone.score(part) for part in whole],
            "bare": lambda whole=whole: [bare.score(part.inputs) for part in whole],
        }
        times = by_turns({case: lambda job=job: seconds(job) for case, job in jobs.items()}, rounds, warm=1)
        found[name] = {
            "texts_per_second": {case: len(texts) / statistics.median(took) for case, took in times.items()},
            "mixed_by": {case: ratio(times[case], times["mixed"]) for case in jobs if case != "mixed"},
        }
        print(name, json.dumps(found[name]), flush=True)
    scores = group.score(own)
    found["difference"] = max(
        difference(folder, name, [texts[row] for row in range(number, len(texts), RUNS)], group, scores[name])
        for number, name in enumerate(names())
    )
    return found


def difference(folder: Path, name: str, texts: list[dict[str, Any]], group: Any, scores: Any) -> float:
    """The largest difference of a probability to what `attribune predict` writes."""
    data, output = folder / "texts.jsonl", folder / "predicted.jsonl"
    data.write_text("".join(f"{json.dumps({key: row[key] for key in COLUMNS})}\n" for row in texts))
    output.unlink(missing_ok=True)
    if attribune(["predict", str(folder / name), str(data), "--output", str(output)]) != 0:
        raise SystemExit("the prediction failed: see the message above")
    expected = [json.loads(line) for line in output.read_text().splitlines()]
    found = group[name].task.decode(scores).columns()
    return max(
        abs(float(value) - row[column])
        for column, values in found.items()
        if column.startswith("probability")
        for value, row in zip(values, expected, strict=True)
    )


def holder(folder: str, kind: str, count: int) -> Iterator[float]:
    """Load so many runs, let them predict, and say how many MB this process holds when asked."""
    runs = {f"{kind}-{number}": Path(folder) / f"{kind}-{number}" for number in range(count)}
    torch.set_num_threads(1)
    group = PredictorGroup.from_pretrained(runs, device="cpu")
    texts = {"text": [row["text"] for row in snippets()[:64]]}
    group.score({name: predictor.encode_rows(texts) for name, predictor in group.items()})
    while True:
        yield proportional()


def proportional() -> float:
    """MB of this process: its own, and its part of what it shares with others."""
    found = re.search(r"^Pss:\s+(\d+)", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def memory(folder: Path) -> dict[str, float]:
    """MB of the nine runs in one process, of nine models tuned in full, and of nine processes."""
    found = {}
    for case, kind, count, processes in (
        ("one run", "task", 1, 1),
        ("nine runs", "task", RUNS, 1),
        ("nine full models", "full", RUNS, 1),
        ("nine processes", "task", 1, RUNS),
    ):
        children = [Child(holder, str(folder), kind, count) for _ in range(processes)]
        found[case] = sum(child.ask("now") for child in children)
        for child in children:
            child.end()
        print(case, found[case], flush=True)
    return found


def main() -> None:
    parser = arguments(__doc__, "many_tasks", rounds=7)
    parser.add_argument("--texts", type=int, default=1800, metavar="N")
    parser.add_argument("--lot", type=int, default=36, metavar="N", help="texts at a time, as a service has them")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="of each training")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_all(folder, options.steps)
        texts = snippets()[-options.texts :]
        found = throughput(folder, texts, options.lot, options.rounds) | {"megabytes": memory(folder)}
    write_result(options.output, {"runs": RUNS, "texts": options.texts, "lot": options.lot, **found})


if __name__ == "__main__":
    main()
