"""One epoch end to end, from the file to the scores: the library's own way against plain padding.

    python benchmarks/epoch.py [--sets polmed critics] [--rows 4000]

The same Injector over the packaged MiniLM, the same rows, batch size, learning rates and texts of at most 256 tokens.
`attribune` is what `attribune train` does (batches of texts of like length, bf16 where the processor has it); `padded`
is the stock Trainer in float32 with its random batches, every text padded to 256 tokens. Both read the table, encode
it, train one epoch, and score the test rows. Of larger sets so many training rows are taken as ``--rows`` says. The
data are looked for in the folder that ATTRIBUNE_DATA names. Writes benchmarks/results/epoch.json after each set, where
sets and ways that were measured earlier on the same machine, with as many rows, stay.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from datasets import Dataset
from harness import arguments, child, earlier, seconds, write_result
from real_data import CARDS, Card, Setting
from safetensors.numpy import load_file

from attribune import AttributeModel, Collator, Injector, Schema, encode
from attribune.backbones.loading import load_tokenizer
from attribune.core.process import peak_megabytes
from attribune.core.progress import quiet_libraries
from attribune.data.batching import LengthGroupedBatches, padding_share
from attribune.data.windows import Head
from attribune.metrics.bootstrap import interval
from attribune.metrics.formulas import accuracy
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.tasks import Classification
from attribune.training.train import train

LENGTH = 256


def parts_of(card: Card, rows: int) -> dict[str, Dataset]:
    """Training, validation and test rows, of the first at most so many."""
    parts: dict[str, Dataset] = card.parts(0)
    return parts | {"train": parts["train"].shuffle(seed=0).select(range(min(rows, len(parts["train"]))))}


def recipe_of(card: Card) -> Recipe:
    """One epoch of an Injector with the settings that are there without any choice."""
    return Setting(name="injector", method="injector").recipe(card, 0, budget={"epochs": 1}, max_length=LENGTH)


def own_way(card: Card, rows: int) -> dict[str, float]:
    """`attribune train`, baselines left out."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        train(recipe_of(card), run.path, tables=parts_of(card, rows), baselines=False)
        scores = load_file(str(run.logits("test")))
    return scored(scores["labels"], scores["logits"])


def padded_way(card: Card, most: int) -> dict[str, float]:
    """The stock Trainer in float32 with every text padded to the longest that is allowed."""
    recipe, parts = recipe_of(card), parts_of(card, most)
    schema = Schema.fit(parts["train"], recipe.data.kinds())
    task = Classification.fit([parts["train"][card.label]])
    tokenizer = load_tokenizer(recipe.backbone.name)
    settings: dict[str, Any] = {"text": card.text, "label": card.label, "task": task, "window": Head(LENGTH)}
    rows = {name: encode(part, schema, tokenizer, **settings) for name, part in parts.items()}
    transformers.set_seed(recipe.training.seed)
    model = AttributeModel.build(recipe.backbone.name, schema, task=task, method=Injector(), tokenizer=tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=recipe.training.batch_size,
            per_device_eval_batch_size=2 * recipe.training.batch_size,
            learning_rate=recipe.training.learning_rate,
            warmup_steps=recipe.training.warmup,
            max_grad_norm=recipe.training.max_grad_norm,
            label_names=["labels"],
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
        )
        collator = Collator(tokenizer, schema, pad_to_multiple_of=LENGTH)
        trainer = transformers.Trainer(model, arguments, train_dataset=rows["train"], data_collator=collator)
        trainer.train()
        found = trainer.predict(rows["test"])
    return scored(np.asarray(found.label_ids), np.asarray(found.predictions))


def scored(labels: Any, logits: Any) -> dict[str, float]:
    """Accuracy on the test rows with its interval."""
    found = interval(accuracy(labels, logits.argmax(axis=1)))
    return {"accuracy": found.value, "low": found.low, "high": found.high}


WAYS = {"attribune": own_way, "padded": padded_way}


def one_way(name: str, way: str, rows: int) -> dict[str, float]:
    """Do it in this process; what was seen."""
    quiet_libraries()
    found: dict[str, float] = {}
    took = seconds(lambda: found.update(WAYS[way](CARDS[name], rows)))
    return {"seconds": took, "peak_megabytes": peak_megabytes(), **found}


def padding(card: Card, most: int) -> float:
    """Share of padding among the tokens of the library's batches."""
    recipe, rows = recipe_of(card), parts_of(card, most)["train"]
    tokenizer = load_tokenizer(recipe.backbone.name)
    encoded = encode(rows, Schema([]), tokenizer, text=card.text, window=Head(LENGTH))
    lengths = np.asarray(encoded["length"])
    size = recipe.training.batch_size
    return padding_share(lengths[LengthGroupedBatches(lengths, batch_size=size).order()], batch_size=size)


def main() -> None:
    parser = arguments(__doc__, "epoch")
    parser.add_argument("--sets", nargs="+", choices=CARDS, default=["polmed", "critics"])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rows", type=int, default=4000, metavar="N", help="of training, at most")
    options = parser.parse_args()
    found: dict[str, Any] = earlier(options.output).get("sets", {})
    for name in options.sets:
        rows = len(parts_of(CARDS[name], options.rows)["train"])
        before = found.get(name, {})
        ways = dict(before["ways"]) if before.get("rows") == rows else {}
        ways |= {way: child(one_way, name, way, options.rows) for way in options.ways}
        found[name] = {"rows": rows, "padding_share": padding(CARDS[name], options.rows), "ways": ways}
        if len(ways) == len(WAYS):
            found[name]["faster"] = ways["padded"]["seconds"] / ways["attribune"]["seconds"]
        write_result(options.output, {"sets": found})


if __name__ == "__main__":
    main()
