"""Memory of one training step of `e2ln` as a document has more chunks, beside one window of the same length.

    python benchmarks/chunk_memory.py [--chunk 128] [--rows 1] [--most 16]

A BERT of MiniLM's shape (6 layers, 384 features, 512 positions) with random weights, tuned in full, dropout as in its
configuration. Each step runs in a process of its own. `saved` is exact: the bytes that the forward pass keeps for the
backward pass, each storage counted once, parameters left out. `peak` is what the process took at most beyond what it
had before the step, gradients included. One window is measured as far as the backbone has positions.
Writes benchmarks/results/chunk_memory.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig

from attribune import AttributeModel, Categorical, Classification, Schema
from attribune.backbone import build_backbone
from attribune.methods import E2ln
from attribune.process_memory import peak_megabytes

RESULT = Path(__file__).parent / "results" / "chunk_memory.json"
POSITIONS = 512
SHAPE = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}


def build(chunk: int | None) -> AttributeModel:
    torch.manual_seed(0)
    table = {name: [f"{name}{i}" for i in range(100)] for name in ("user", "product")}
    schema = Schema.fit(table, [Categorical(name) for name in table])
    backbone = build_backbone(BertConfig(**SHAPE, max_position_embeddings=POSITIONS))
    return AttributeModel.build(backbone, schema, task=Classification(classes=5), method=E2ln(), chunk=chunk).train()


def most_taken() -> int:
    """Bytes that this process had at most so far."""
    return int(peak_megabytes() * 2**20)


def step(chunk: int | None, tokens: int, rows: int) -> dict[str, float]:
    """Forward and backward pass, in megabytes."""
    model = build(chunk)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = {
        "input_ids": torch.randint(1000, 30000, (rows, tokens)),
        "attribute_ids": torch.randint(1, 100, (rows, 2)),
        "labels": torch.randint(0, 5, (rows,)),
    }
    before = most_taken()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(**batch).loss
    loss.backward()
    return {"saved": sum(saved.values()) / 1e6, "peak": (most_taken() - before) / 1e6}


def measured(chunk: int | None, tokens: int, rows: int) -> dict[str, float]:
    """The same in a process of its own, since what was taken at most is never less afterwards."""
    sizes = [str(chunk or 0), str(tokens), str(rows)]
    command = [sys.executable, str(Path(__file__).resolve()), "--step", *sizes]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunk", type=int, default=128)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--most", type=int, default=16)
    parser.add_argument("--step", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step is not None:
        chunk, tokens, rows = options.step
        print(json.dumps(step(chunk or None, tokens, rows)))
        return
    cases: list[dict[str, Any]] = []
    number = 1
    while number <= options.most:
        tokens = number * options.chunk
        whole = measured(None, tokens, options.rows) if tokens <= POSITIONS else None
        found = measured(options.chunk, tokens, options.rows)
        # The same for every number of chunks where memory grows linearly; keys of summaries make it grow a little.
        each = found["saved"] / number
        cases.append({"chunks": number, "megabytes": found, "saved_per_chunk": each, "one_window": whole})
        number *= 2
    result = {
        "chunk": options.chunk,
        "rows": options.rows,
        "positions": POSITIONS,
        **SHAPE,
        "cases": cases,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
