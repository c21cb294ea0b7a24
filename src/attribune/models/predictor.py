"""`Predictor`: a trained model with everything that turns raw rows into logits."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from attribune.backbones.int8 import check_int8, quantise_backbone
from attribune.backbones.sharing import SharedBackbones, with_same_tensors
from attribune.core.arguments import checked_arguments
from attribune.core.config import short_repr
from attribune.core.device import check_batch_size, check_precision, computing_in, named_device
from attribune.core.overlap import Fetched, ahead, fetched, late
from attribune.core.threads import limit_threads
from attribune.core.wording import did_you_mean
from attribune.data.messages import message_texts
from attribune.data.readers.base import EncodedRows, TextRows
from attribune.data.texts import TextInput
from attribune.errors import ConfigError
from attribune.models.auto import Scorer, load_saved
from attribune.models.blend import Blend
from attribune.models.document_vectors import TextOf, encode_documents, reward_documents
from attribune.models.half import HalfBackbone
from attribune.models.row_inputs import RowInput, RowNames
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import Table, column_batches


class Locked:
    """An object with a lock, `_lock`; a copy has one of its own, also after it was pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


Quantisation = Literal["int8"]
Model = TypeVar("Model", bound=Scorer)


def check_quantisation(quantise: Quantisation | None) -> Quantisation | None:
    """Return what is known; ConfigError for anything else."""
    if quantise is None or quantise == "int8":
        return quantise
    cure = did_you_mean(str(quantise).lower(), ["int8"]) or ": choose int8, or leave it out"
    raise ConfigError(f"quantise is {short_repr(quantise)}{cure}")


def quantised(model: Model, quantise: Quantisation | None, *, shared: SharedBackbones | None = None) -> Model:
    """Return a model for prediction whose backbone has int8 weights; the given one does not change.

    Method, head and norms stay in float32 and share their tensors with the given model.

    Args:
        quantise: None returns the model as it is.
        shared: the backbones from which it was loaded; models that share weights then share the int8 weights.

    Raises:
        ConfigError: for a baseline, a model that is quantised already, or one whose backbone or processor has no int8.
    """
    if check_quantisation(quantise) is None:
        return model
    neural = model.neural("quantise='int8' is for neural models, and this one is a baseline: leave it out")
    if neural.quantised is not None:
        raise ConfigError(f"the model is in {neural.quantised} already: leave quantise out")
    check_int8(torch.device("cpu"))
    if not neural.placement.has_sites:
        kind = neural.backbone.config.model_type
        raise ConfigError(f"quantise='int8' is for Transformers, and {kind!r} is not one: leave it out")
    own = (neural.schema, neural.tokenizer, neural.memory, neural.blend)
    copy = with_same_tensors(neural, shared=[one for one in own if one is not None])
    quantise_backbone(copy.backbone, {} if shared is None else shared.int8)
    copy.quantised = quantise
    return cast(Model, copy.eval())


_ROWS = 4096  # rows encoded and sorted by length at once


class Predictor(Locked):
    """Score raw rows with a trained model. Threads may share a predictor; their forward passes run one at a time.

    It can be copied and pickled, with all weights: a copy shares nothing.

    Args:
        model: a neural model, or a baseline.
        text_input: which columns are the text, and how it is fitted, or the name of one; by default as saved
            with the model.
        batch_size: rows per forward pass.
        precision: ``float32`` or ``bf16``; by default that in which the model was trained, or float32 where it does not
            say.
        device: where the model runs; by default a GPU if there is one.
        quantise: ``int8`` computes the backbone's linear maps in int8, on a CPU; see `quantised`.
        blend: whether the simple models count that were found to help beside a neural one, if there are some.

    Raises:
        ConfigError: for a model without a tokenizer, or one whose text columns are not known, or that has no int8.
    """

    def __init__(
        self,
        model: Scorer,
        *,
        text_input: TextInput | str | Sequence[str] | None = None,
        batch_size: int = 64,
        precision: str | None = None,
        device: str | None = None,
        quantise: Quantisation | None = None,
        blend: bool = True,
    ) -> None:
        if isinstance(model, str | Path):
            raise ConfigError(f"the model is the path {str(model)!r}: load it with Predictor.from_pretrained")
        if not hasattr(model, "row_encoder"):
            raise ConfigError(
                f"the model is of the type {type(model).__name__}, which reads no rows: give an AttributeModel, or "
                "load a saved one with Predictor.from_pretrained"
            )
        check_batch_size(batch_size)
        precision = precision or model.precision or "float32"
        check_precision(precision)
        text = TextInput.read_setting(text_input) or model.text_input
        if text is None:
            raise ConfigError(
                "the model does not say which column is its text: give text_input='text', with the name of yours, here "
                "or to AttributeModel.build"
            )
        model = quantised(model, quantise)
        self.model, self.task, self.text_input = model, model.task, text
        self.batch_size, self.precision, self.blends = batch_size, precision, blend
        limit_threads()
        super().__init__()
        self._encoder = model.row_encoder(text)
        self.device = named_device(device)
        model.prepare(self.device)
        halves = precision == "bf16" and all(HalfBackbone.is_possible(one) for one in model.networks())
        self._halves = [HalfBackbone(one) for one in model.networks()] if halves else []

    @property
    def schema(self) -> Schema:
        """The attributes, with the values that the model knows now."""
        return self.model.schema

    def twin(self) -> Predictor:
        """Return a predictor with modules of its own over the same tensors, which may know other values.

        Raises:
            ConfigError: for a baseline.
        """
        model = self.model.neural("the model is a baseline, which has no tensors to share: load it again")
        twin = with_same_tensors(model, shared=(model.schema, model.tokenizer, model.blend))
        return self._of(twin, blend=self.blends)

    def without_blend(self) -> Predictor:
        """Return a predictor of the same network alone; itself where no other model counts beside it."""
        return self if self.blend is None else self._of(self.model, blend=False)

    def _of(self, model: Scorer, *, blend: bool) -> Predictor:
        """Return a predictor of a model with the settings of this one."""
        return Predictor(
            model,
            text_input=self.text_input,
            batch_size=self.batch_size,
            precision=self.precision,
            device=str(self.device),
            blend=blend,
        )

    def use(self, device: torch.device | str) -> None:
        """Score on another device from now on."""
        self.device = torch.device(device)
        self.model.prepare(self.device)

    @property
    def reads_attributes(self) -> bool:
        """Whether the predictions depend on the attributes."""
        return self.model.reads_attributes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have."""
        text = self.text_input.names
        return (*text, *self.schema.sources) if self.reads_attributes else text

    def columns_in(self, table: Table) -> list[str]:
        """Return the columns that rows must have, and those that are read where a table has them."""
        return self._encoder.columns_in(table, self.columns)

    @classmethod
    @checked_arguments
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        backbone: str | Path | None = None,
        revision: str | None = None,
        batch_size: int = 64,
        precision: str | None = None,
        device: str | None = None,
        verify: bool = True,
        quantise: Quantisation | None = None,
        text_input: TextInput | str | Sequence[str] | None = None,
    ) -> Self:
        """Load a saved model with everything it needs to score raw rows.

        Args:
            name: folder of a run, of its model or of an export, or a name on the hub.
            backbone: new location of the backbone's weights, if they were moved.
            revision: branch, tag or commit of the model on the hub.
            precision: ``float32`` or ``bf16``; by default that in which the model was trained, as `attribune predict`
                and the service take it.
            verify: compare the model's files with the checksums that were saved with them.
            text_input: for a model that was saved without it.

        Raises:
            ModelFolderError: for a missing, changed or foreign file, or another backbone than in training.
            ConfigError: for a model saved without tokenizer or text columns.
        """
        model = load_saved(name, backbone=backbone, revision=revision, verify=verify)
        return cls(
            model,
            text_input=text_input,
            batch_size=batch_size,
            precision=precision,
            device=device,
            quantise=quantise,
        )

    def check_columns(self, names: Sequence[str], *, source: str) -> None:
        """Raise a DataError if a column is missing, naming it and the cure."""
        self.row_names.require(names, source=source)

    @property
    def row_names(self) -> RowNames:
        """The columns that rows must have, and may have."""
        return RowNames(
            texts=self.text_input.names,
            needed=self.columns,
            known=(*self.schema.sources, *self._encoder.columns),
            nested=self.schema.nested,
            words=self.task.input.reads_words,
        )

    def predict(self, rows: Any, /, **attributes: Any) -> Any:
        """Return predictions and probabilities by the column names that `attribune predict` writes.

            predictor.predict("A joy from start to end.", user="u17")
            predictor.predict(["A joy from start to end.", "Dull."], user=["u17", "u4"])

        Args:
            rows: a text, with `attributes` beside it; a list of texts, with one value of an attribute for all, or a
                list with one value for each text (a list of lists, if each text has several); a row as a mapping, or a
                list of rows, in which unknown attributes may be left out; columns by name, a DataFrame, or any table
                that has the Arrow interface.

        Returns:
            For one text or one row its values by name; for a DataFrame one with its index; otherwise `Predictions`,
            columns by name.

        Raises:
            DataError: naming the column that is missing, an attribute that the model does not have or that has another
                number of values than there are texts, or column and row of a value that cannot be used.
        """
        given = RowInput.read(rows, self.row_names, attributes)
        return given.shaped(self.task.decode(self.logits(given.columns)[0]).columns())

    def logits(
        self,
        table: Table,
        *,
        hide_attributes: bool | Collection[str] = False,
        first_row: int = 1,
        network: npt.NDArray[Any] | None = None,
    ) -> tuple[npt.NDArray[Any], EncodingReport]:
        """Return the scores of every row, as `score` does, and the report on their attributes.

        Args:
            table: columns by name, a DataFrame, an Arrow table, or a datasets object.
            hide_attributes: treat every attribute as missing, or those of some names or columns.
            network: the scores of the network alone, where they are known.

        Raises:
            DataError: naming column and row of a value that cannot be used.
        """
        logits = [self.task.empty_scores(0)]
        report = EncodingReport({})
        names, hidden = self.columns_in(table), self._hidden_columns(hide_attributes)
        batches = column_batches(table, names, batch_size=_ROWS, first_row=first_row)
        encoded = ((row, self._encode(columns, first_row=row)) for row, columns in batches)
        for row, rows in ahead(encoded, device=self.device):
            shown = rows.hide_attributes(hidden) if hidden else rows
            if network is None:
                logits.append(self.score(shown))
            else:
                start = row - first_row
                logits.append(self.blended(network[start : start + len(rows)], shown))
            report = report + rows.report.with_empty(rows.empty, first_row=row)
        return np.concatenate(logits), report

    def _hidden_columns(self, hide_attributes: bool | Collection[str]) -> list[slice]:
        """Return the columns of attributes that are treated as missing."""
        if isinstance(hide_attributes, bool):
            return [slice(None)] if hide_attributes else []
        schema = self.model.input_schema
        return [one.columns for name in hide_attributes for one in schema.named(name)]

    def encode(
        self, rows: Any, /, *, normalize: bool = False, of: TextOf = "text", **attributes: Any
    ) -> npt.NDArray[np.float32]:
        """Return the vectors (n, H) of texts with their attributes, as the head of the model reads them.

            predictor.encode(["A joy from start to end.", "Dull."], user="u17", normalize=True)

        Args:
            rows: whatever `predict` takes, of single texts; for one text or one row the vector (H,) is returned.
            normalize: whether to scale vectors to length 1, so that their products are cosines.
            of: for the task ``similarity``, which text this is, ``text`` or ``text_pair``; it decides the column
                and the attributes with which texts are read.

        Raises:
            ConfigError: for a baseline, or a task that scores tokens or prefers one of two texts.
            DataError: as `predict` does.
        """
        refusal = f"{type(self.model).__name__} has no vectors of texts: train a method with a backbone"
        return encode_documents(
            self.model.neural(refusal),
            rows,
            attributes,
            text_input=self.text_input,
            batch_size=self.batch_size,
            normalize=normalize,
            of=of,
            run=self._pass,
        )

    def reward(self, texts: Any, /, **attributes: Any) -> Any:
        """Return the reward of each text for whoever judges it, of a run of the task ``preference``.

            predictor.reward(["A joy from start to end.", "Dull."], user="u17")

        Of two texts for the same judge, after the same prompt, the one with the higher reward is preferred with the
        probability ``σ(r_1 - r_2)``; only differences of such rewards have a meaning.

        Args:
            texts: whatever `predict` takes, of single texts in the first text column of the run.
            attributes: values of the attributes, and the prompt by the name of its column.

        Returns:
            For one text or one row a number; otherwise an array (n,).

        Raises:
            ConfigError: for a run of another task.
            DataError: as `predict` does, and for texts without a prompt where the run has read one.
        """
        found = reward_documents(
            self.model.neural("the model is a baseline, which has no rewards: train a method with a backbone"),
            texts,
            attributes,
            text_input=self.text_input,
            batch_size=self.batch_size,
            run=self._pass,
        )
        return found / np.float32(self.model.temperature or 1.0)

    def reward_completions(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """Return the reward of each completion, as the trainers of TRL call a reward function.

            GRPOTrainer(model, reward_funcs=predictor.reward_completions, train_dataset=rows, ...)

        Args:
            prompts: read where the run has read a prompt, in place of its column; of several columns, those of the
                data set are read.
            completions: texts, or lists of messages, of which the contents are read; likewise prompts.
            columns: those of the data set, each with a value per completion. It must have all attributes that the model
                reads; what else TRL gives is ignored.

        Raises:
            ConfigError: for a run of another task.
            DataError: naming the column that is missing, or column and row of a value that cannot be used.
        """
        text = self.text_input
        known = (*self.schema.sources, *self.schema.columns)
        given = {name: values for name, values in columns.items() if name in known}
        if len(text.prompt) == 1:
            given[text.prompt[0]] = message_texts(prompts)
        else:
            given |= {name: columns[name] for name in text.prompt if name in columns}
        return [float(reward) for reward in self.reward(given | {text.columns[0]: message_texts(completions)})]

    def encode_rows(self, table: Table, *, first_row: int = 1) -> EncodedRows:
        """Encode rows for `score`, which may be called several times with other attributes; errors as in `logits`."""
        names = self.columns_in(table)
        batches = column_batches(table, names, batch_size=_ROWS, first_row=first_row)
        parts = [self._encode(columns, first_row=row) for row, columns in batches]
        nothing = np.zeros((0, self.model.input_schema.slots), dtype=np.int64)
        return EncodedRows.concat(parts or [TextRows.without_attributes([], texts=[]).with_attribute_ids(nothing)])

    def held(self) -> AbstractContextManager[Any]:
        """Keep other threads from scoring within a block."""
        return self._lock

    def _encode(self, columns: Mapping[str, Sequence[Any]], *, first_row: int) -> EncodedRows:
        schema = self.model.input_schema
        rows = self._encoder.encode(columns, schema, text=self.text_input, first_row=first_row)
        if self.blend is None:
            return rows
        return replace(rows, texts=self.text_input.read_all(columns, words=self.task.input.reads_words))

    @property
    def blend(self) -> Blend | None:
        """The simple models that count beside the neural one."""
        blend: Blend | None = self.model.blend if self.blends else None
        return blend

    def blended(self, scores: npt.NDArray[Any], rows: EncodedRows) -> npt.NDArray[Any]:
        """Return the scores of a neural model with those of the simple models beside it, if there are some.

        Raises:
            ConfigError: for rows that were encoded without their texts, which the linear model reads.
        """
        if self.blend is None:
            return scores
        if rows.texts is None:
            raise ConfigError(
                f"the {len(rows)} rows have no texts as they are written, which the models beside the network "
                "read: encode them with encode_rows of this predictor, or leave those models out with "
                "Predictor(model, blend=False)"
            )
        return self.blend.logits(scores * (self.model.temperature or 1.0), rows.texts, rows.attribute_ids)

    def score(self, rows: EncodedRows) -> npt.NDArray[Any]:
        """Return the logits (n, outputs) of encoded rows, or their scores (n,) for a task that scores tokens.

        Raises:
            ConfigError: for rows of another encoder without the texts that models beside the network read.
        """
        pieces = rows.pieces()
        sheet = pieces.sheet(self.task)
        for index, scores in late(self._scored(pieces.rows)):
            pieces.put(sheet, index, scores)
        return self.blended(pieces.merged(sheet, self.task), rows)

    def _scored(self, rows: EncodedRows) -> Iterator[tuple[npt.NDArray[np.intp], Fetched]]:
        """Begin to score each batch of rows."""
        for index, batch in ahead(self.model.batches(rows, size=self.batch_size), device=self.device):
            with self._pass():
                scores = fetched(self.model.score(batch))
            yield index, scores

    @contextmanager
    def _pass(self) -> Iterator[None]:
        """Run one forward pass at a time: the layers read the attributes of the pass under way."""
        with ExitStack() as stack:
            stack.enter_context(self.held())
            stack.enter_context(torch.inference_mode())
            for half in self._halves:
                stack.enter_context(half.in_place())
            if not self._halves:
                stack.enter_context(self.autocast())
            yield

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which the model runs with its own weights: autocast for bf16."""
        return computing_in(self.precision, self.device.type)
