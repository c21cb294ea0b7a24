"""Memory of one training step of `e2ln` as a document has more chunks, beside one window of the same length.

    python benchmarks/chunk_memory.py [--most 16]

A BERT of MiniLM's shape (6 layers, 384 features, 512 positions) with random weights, tuned in full, dropout as in its
configuration, on one row in chunks of 128 tokens. Each step runs in a process of its own. `saved` is exact: the bytes
that the forward pass keeps for the backward pass, each storage counted once, parameters left out. `peak` is what the
process took at most beyond what it had before the step, gradients included. One window is measured as far as the
backbone has positions. Writes benchmarks/results/chunk_memory.json.
"""

from __future__ import annotations

from typing import Any

import torch
from harness import arguments, child, write_result
from models import MINILM, batch_of
from torch import Tensor

from attribune import AttributeModel, Categorical, Classification, Schema
from attribune.backbones.loading import build_backbone
from attribune.core.process import peak_megabytes
from attribune.methods import E2ln

CHUNK, VALUES = 128, 100
MIB = 2**20 / 1e6  # in MB


def build(chunk: int | None) -> AttributeModel:
    torch.manual_seed(0)
    table = {name: [f"{name}{i}" for i in range(VALUES)] for name in ("user", "product")}
    schema = Schema.fit(table, [Categorical(name) for name in table])
    backbone = build_backbone(MINILM.config())
    return AttributeModel.build(backbone, schema, task=Classification(classes=5), method=E2ln(), chunk=chunk).train()


def step(chunk: int | None, tokens: int) -> dict[str, float]:
    """Forward and backward pass, in megabytes."""
    model = build(chunk)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    given = batch_of(1, tokens, torch.randint(1, VALUES, (1, 2)))
    del given["attention_mask"]
    before = peak_megabytes()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(**given).loss
    loss.backward()
    return {"saved": sum(saved.values()) / 1e6, "peak": (peak_megabytes() - before) * MIB}


def main() -> None:
    parser = arguments(__doc__, "chunk_memory")
    parser.add_argument("--most", type=int, default=16, metavar="N", help="chunks of a document at most; 16")
    options = parser.parse_args()
    positions = MINILM.config().max_position_embeddings
    cases: list[dict[str, Any]] = []
    number = 1
    while number <= options.most:
        tokens = number * CHUNK
        whole = child(step, None, tokens) if tokens <= positions else None
        found = child(step, CHUNK, tokens)
        # The same for every number of chunks where memory grows linearly; keys of summaries make it grow a little.
        each = found["saved"] / number
        cases.append({"chunks": number, "megabytes": found, "saved_per_chunk": each, "one_window": whole})
        number *= 2
    write_result(options.output, {"chunk": CHUNK, "rows": 1, "positions": positions, "cases": cases})


if __name__ == "__main__":
    main()
