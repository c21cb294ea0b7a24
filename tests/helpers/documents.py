"""Documents longer than a chunk, and models that compute in float64 throughout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from families import VOCABULARY
from torch import Tensor


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model gives logits in float32, and rotary families turn queries and keys in it: not here."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def make_documents(lengths: Sequence[int]) -> list[list[int]]:
    """The token ids of documents, the same at every call."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(5, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]


def padded(documents: Sequence[Sequence[int]], *, more: int = 0, side: str = "right") -> dict[str, Tensor]:
    """Ids and mask of a batch, with more padding than it needs where told; padding has ids that mean something."""
    T = max(map(len, documents)) + more
    ids, mask = torch.full((len(documents), T), 9), torch.zeros(len(documents), T, dtype=torch.long)
    for row, document in enumerate(documents):
        start = T - len(document) if side == "left" else 0
        ids[row, start : start + len(document)] = torch.tensor(document)
        mask[row, start : start + len(document)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def assert_read_alike(
    vectors: Callable[..., Tensor], documents: Sequence[Sequence[int]], attribute_ids: Tensor
) -> None:
    """Check that a document's vector depends on no other row, no order and no padding."""
    expected = vectors(attribute_ids=attribute_ids, **padded(documents))

    def check(rows: Sequence[int], **batch: Tensor) -> None:
        found = vectors(attribute_ids=attribute_ids[list(rows)], **batch)
        torch.testing.assert_close(found, expected[list(rows)], rtol=0, atol=1e-10)

    every = range(len(documents))
    for more in (0, 1, 2, 4, 5, 20, 30):
        for side in ("right", "left"):
            check(every, **padded(documents, more=more, side=side))
    check([2, 0, 1], **padded([documents[row] for row in (2, 0, 1)]))
    for row in every:
        check([row], input_ids=torch.tensor([documents[row]]))
        check([row], **padded([documents[row]]))
