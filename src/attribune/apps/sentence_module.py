"""A model as the module of a `SentenceTransformer`: texts or rows with attributes in, vectors out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from attribune.core.device import at_least_float32, computing_in
from attribune.core.files import read_json, write_json
from attribune.data.readers.base import EncodedRows
from attribune.models.auto import load_model
from attribune.models.document_vectors import DocumentReader, TextOf
from attribune.models.model import AttributeModel
from attribune.models.row_inputs import shared_values

_SETTINGS = "attribune_module.json"


class AttributeModule(nn.Module):
    """Use an `AttributeModel` as a module of sentence-transformers (5 or newer), which need not be installed.

        searcher = SentenceTransformer(modules=[AttributeModule(model)])
        searcher.encode([{"text": "A joy from start to end.", "user": "u17"}])
        searcher.encode(["A joy from start to end.", "Dull."], user="u17")

    A model of the task ``similarity`` gives the vectors of its first texts, such as queries, and with
    ``of="text_pair"`` those of the second ones, such as documents.

    Args:
        model: a model with a tokenizer and text columns.
        of: which of the two texts that the model compares: ``text`` or ``text_pair``.

    Raises:
        ConfigError: for a model whose texts have no vectors.
    """

    save_in_root: ClassVar[bool] = True
    modalities: ClassVar[list[str]] = ["text", "message"]  # with the second, inputs may be rows

    def __init__(self, model: AttributeModel, *, of: TextOf = "text") -> None:
        super().__init__()
        self.model, self.of = model, of
        self._reader = DocumentReader(model, of=of)

    @property
    def forward_kwargs(self) -> set[str]:
        """What `SentenceTransformer.encode` passes on: the attributes that all texts share."""
        return set(self.model.schema.sources)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the model."""
        return self.model.tokenizer

    @property
    def max_seq_length(self) -> int | None:
        """The maximum length of a text in ids."""
        return self.model.longest_text()

    def get_embedding_dimension(self) -> int:
        """Return H, the size of the vectors."""
        return self.model.document_size

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **attributes: Any) -> dict[str, Tensor]:
        """Make a batch of texts, or of rows.

        Args:
            prompt: put before each text.
            attributes: beside texts, which share them, since they come in another order: a list is the value of each.
        """
        rows = [self._prompted(one, prompt) for one in inputs] if prompt else list(inputs)
        parts, _ = self._reader.parts(rows, shared_values(attributes, len(rows)))
        return self.model.batch(EncodedRows.concat(list(parts)))

    def _prompted(self, one: Any, prompt: str) -> Any:
        if not isinstance(one, Mapping):
            return f"{prompt}{one}"
        first = self._reader.text.names[0]
        return {**one, first: f"{prompt}{one[first]}"}

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Add the vectors (B, H) of a batch to it, as ``sentence_embedding``; trainers choose their own precision."""
        precision = None if self.training else self.model.precision
        with computing_in(precision, self.model.device.type):
            features["sentence_embedding"] = at_least_float32(self.model.document_vectors(**features))
        return features

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Write the folder of the model, and which text it reads."""
        self.model.save_pretrained(output_path)
        write_json(Path(output_path) / _SETTINGS, {"of": self.of}, what="settings of the module")

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> Self:
        """Load the folder of the model.

        Args:
            options: of sentence-transformers; those of the hub are passed on.
        """
        hub = {name: options.get(name) for name in ("token", "revision")}
        folder = Path(model_name_or_path) / subfolder
        model = load_model(
            folder if subfolder else model_name_or_path,
            cache_dir=options.get("cache_folder"),
            local_files_only=bool(options.get("local_files_only")),
            **hub,
        )
        file = folder / _SETTINGS
        settings = read_json(file, what="settings of the module") if file.is_file() else {}
        return cls(model, of=settings.get("of", "text"))
