"""What the host does beside the model, in one thread: microseconds a row for each step of prediction and training.

    python benchmarks/host.py [--rows 8192] [--rounds 7]

The texts are the film snippets of the demonstration, each with a user and a film, read by an untrained Injector over
MiniLM with its tokenizer. `tokenizer` is the tokenizer alone, `encoding` what `Predictor.encode_rows` takes for texts
and attributes, `batches` what cuts these rows into padded batches of 256, with texts of their own and of which each
stands four times, and `training` the batches of 64 that the loader of the Trainer makes of stored rows. Nothing is
computed by the model. Writes benchmarks/results/host.json.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch
from harness import arguments, by_turns, seconds, snippets, write_result
from torch.utils.data import DataLoader

from attribune import AttributeModel, Categorical, Classification, Predictor, Schema, encode
from attribune.backbones.loading import DEFAULT_BACKBONE, load_tokenizer
from attribune.data.batching import LengthGroupedBatches, SharedBatches


def table_of(rows: int, *, each: int = 1) -> dict[str, list[Any]]:
    """So many rows, of which so many share a text."""
    known = snippets()
    texts = [f"{known[row % len(known)]['text']} {row // len(known)}" for row in range(rows // each)]
    return {
        "text": [text for text in texts for _ in range(each)],
        "user": [f"u{row % 997}" for row in range(rows)],
        "film": [f"f{row % 89}" for row in range(rows)],
        "label": [row % 2 for row in range(rows)],
    }


def main() -> None:
    parser = arguments(__doc__, "host", rounds=7)
    parser.add_argument("--rows", type=int, default=8192, metavar="N", help="8,192")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table, shared = table_of(options.rows), table_of(options.rows, each=4)
    tokenizer = load_tokenizer(DEFAULT_BACKBONE)
    schema = Schema.fit(table, [Categorical("user"), Categorical("film")])
    task = Classification(classes=(0, 1))
    model = AttributeModel.build(DEFAULT_BACKBONE, schema, task=task, tokenizer=tokenizer, text_input="text").eval()
    predictor = Predictor(model)
    rows, repeated = predictor.encode_rows(table), predictor.encode_rows(shared)
    stored = encode(table, schema, tokenizer, text="text", label="label", task=task)
    order = SharedBatches(LengthGroupedBatches(stored["length"], batch_size=64))
    loader = DataLoader(stored, batch_sampler=order, collate_fn=model.collator())  # type: ignore[arg-type]
    jobs = {
        "tokenizer": lambda: tokenizer(table["text"], return_attention_mask=False, return_token_type_ids=False),
        "encoding": lambda: predictor.encode_rows(table),
        "batches": lambda: list(model.batches(rows, size=256)),
        "batches, shared texts": lambda: list(model.batches(repeated, size=256)),
        "training": lambda: list(loader),
    }
    found = by_turns({name: lambda job=job: seconds(job) for name, job in jobs.items()}, options.rounds)
    result = {
        "rows": options.rows,
        "ids": round(float(rows.lengths.mean()), 1),
        "microseconds": {name: round(1e6 * statistics.median(one) / options.rows, 2) for name, one in found.items()},
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()
