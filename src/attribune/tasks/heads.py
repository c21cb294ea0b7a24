"""What a task puts on the vectors of a row's texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attribune.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from attribune.tasks.cut_points import Link

__all__ = ["TaskHead"]


@dataclass(frozen=True, kw_only=True)
class TaskHead:
    """A linear layer on the vector of each text that a model reads, whose outputs are logits.

    Args:
        outputs: size of the linear layer. It is 0 for a task without one: the logits are those of the language model,
            or are made of the vectors of a row's texts.
        texts: how many texts of a row the model reads, each for itself.
    """

    outputs: int
    texts: int = 1

    def logits(self, outputs: Tensor) -> Tensor:
        """Return the logits (B, outputs of the task), in front of the link; by default those of all texts of a row.

        Args:
            outputs: of the linear layer, (B texts, outputs); the vectors (B texts, H) where there is none.
        """
        return outputs if self.texts == 1 else outputs.view(-1, self.texts * outputs.shape[1])

    def reads_attribute(self, name: str, *, place: int) -> bool:
        """Whether the text of a row at a place, from 0, is read with an attribute; by default all are."""
        return True

    def check_attributes(self, names: Sequence[str]) -> None:
        """Check that each attribute has a text that is read with it; ConfigError for others."""
        for name in names:
            if not any(self.reads_attribute(name, place=place) for place in range(self.texts)):
                raise ConfigError(
                    f"no text is read with the attribute {name!r}: name it in task.text_attributes or "
                    "task.pair_attributes, or leave it out of the attributes"
                )

    def build_link(self, vector_sizes: Mapping[str, int] | None = None) -> Link | None:
        """Return a module that makes logits (B, outputs) of the linear layer's outputs; None if they are the logits.

        Args:
            vector_sizes: size of the vectors of each attribute that has any; None for a model without attributes.
        """
        return None
