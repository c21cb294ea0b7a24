"""The pipeline ``attribute-classification`` of transformers: rows with attributes in, labels with probabilities out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from transformers import Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from attribune.data.readers.base import EncodedRows
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor
from attribune.models.row_inputs import RowInput, is_list
from attribune.tasks.capabilities import PIPELINE, require

TASK = "attribute-classification"
_ROWS = 4096  # of an iterator, scored at once


class AttributeClassificationPipeline(Pipeline):
    """Classify rows by their text and attributes. Import this class, then `transformers.pipeline` can make one.

        classify = pipeline("attribute-classification", model="runs/stars/model")
        classify("Strong, but clean.", user="u17")

    Args:
        model: for a task with classes: classification, rating or ordinal.
        text_input: name of the text column, for a model that was saved without it.
        batch_size: rows per forward pass.
        precision: ``float32`` or ``bf16``; by default that in which the model was trained.
        options: options of `transformers.Pipeline`, such as ``device``, and of `__call__` for every call.

    Raises:
        ConfigError: for a model without classes, or without a tokenizer.
        DataError: for an option that is neither of these.
    """

    _load_tokenizer: ClassVar[bool] = False
    _load_processor: ClassVar[bool] = False
    _load_feature_extractor: ClassVar[bool] = False
    _load_image_processor: ClassVar[bool] = False
    _load_video_processor: ClassVar[bool] = False

    def __init__(
        self,
        model: AttributeModel,
        *,
        text_input: TextInput | str | None = None,
        batch_size: int = 64,
        precision: str | None = None,
        **options: Any,
    ) -> None:
        require(model.task, PIPELINE, what=TASK)
        super().__init__(model=model, **options)
        self._predictor = Predictor(
            model, text_input=text_input, batch_size=batch_size, precision=precision, device=str(self.device)
        )
        self._predictor.row_names.check(self._preprocess_params["attributes"], what="the options")

    def _sanitize_parameters(
        self, top_k: int | None = 1, **attributes: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return the parameters of `preprocess`, of `_forward` and of `postprocess`."""
        if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
            raise ConfigError(f"top_k is {top_k!r}: give a whole number of at least 1, or None for all labels")
        return {"attributes": attributes}, {}, {"top_k": top_k}

    def preprocess(self, rows: Any, attributes: dict[str, Any]) -> dict[str, Any]:
        """Encode a text, a row, or several; see `Predictor.predict`."""
        given = RowInput.read(rows, self._predictor.row_names, attributes)
        return {"rows": self._predictor.encode_rows(given.columns), "is_single": given.is_single}

    def _forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        rows: EncodedRows = inputs["rows"]
        return {"logits": self._predictor.score(rows), "is_single": inputs["is_single"]}

    def postprocess(self, outputs: dict[str, Any], top_k: int | None = 1) -> Any:
        """Return the best label of each row with its probability, or a list of the best ones."""
        task = self._predictor.task
        probabilities = task.decode(outputs["logits"]).probabilities
        assert probabilities is not None
        found = [_labelled(row, task.output_names, top_k) for row in probabilities]
        return found[0] if outputs["is_single"] else found

    def __call__(self, rows: Any, **options: Any) -> Any:
        """Classify rows; an iterator is read in parts, and gives an iterator.

        Args:
            rows: whatever `Predictor.predict` takes.
            options: the attributes beside a text, and ``top_k``: how many labels are returned of each row, as a list;
                None for all. By default the best one alone, as a dictionary.
        """
        if isinstance(rows, Iterator):
            return self._stream(rows, options)
        attributes, top_k = self._preprocess_params["attributes"], self._postprocess_params["top_k"]
        given, _, wanted = self._sanitize_parameters(**{"top_k": top_k, **attributes, **options})
        return self.postprocess(self._forward(self.preprocess(rows, **given)), **wanted)

    def _stream(self, rows: Iterator[Any], options: dict[str, Any]) -> Iterator[Any]:
        if listed := [name for name, value in options.items() if is_list(value)]:
            raise DataError(
                f"{listed[0]} is a list, and the texts come one after another: give rows with their own values, or a "
                "list of texts"
            )
        for first in rows:
            yield from self(list(chain([first], islice(rows, _ROWS - 1))), **options)


def _labelled(probabilities: npt.NDArray[Any], names: list[str], top_k: int | None) -> Any:
    order = np.argsort(-probabilities, kind="stable")[:top_k]
    found = [{"label": names[number], "score": float(probabilities[number])} for number in order]
    return found[0] if top_k == 1 else found


PIPELINE_REGISTRY.supported_tasks.pop(TASK, None)  # of an earlier import
PIPELINE_REGISTRY.register_pipeline(TASK, pipeline_class=AttributeClassificationPipeline, pt_model=AttributeModel)
