"""The options of backbones without pretraining, by the names that recipes give them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from attribune.backbones.recurrent import RecurrentOptions as LayerOptions
from attribune.backbones.untrained import UntrainedBackbone

Size = Annotated[int, Field(ge=1, le=100_000)]
Width = Annotated[int, Field(ge=1, le=1_000)]
Language = Annotated[str, Field(pattern="^[a-z]{2,3}$")]
Tokenization = Literal["words", "whitespace"]


class WordOptions(UntrainedBackbone):
    """What can be chosen of a backbone over word vectors.

    Args:
        embedding_size: E, of a word vector.
        train_vectors: whether training changes the word vectors.
        unknown_words: whether words outside the vocabulary share one trained ``vector``, or are left out (``drop``).
        min_count: how often training rows have a word that has a vector of its own; one with a pretrained vector needs
            to stand there once.
        tokenization: ``words`` are runs of letters and digits, and single marks; ``whitespace`` splits texts that are
            tokenized already, in which ``<sssss>`` ends a sentence.
        input_vectors: how many vectors of this size stand side by side for a word, as some methods make them.
        dropout: on the word vectors.
        state_dropout: on the states.
    """

    builder: ClassVar[str] = "attribune_lab.backbones.building:build_word_backbone"

    embedding_size: Size = 300
    train_vectors: bool = True
    unknown_words: Literal["vector", "drop"] = "vector"
    min_count: Size = 2
    tokenization: Tokenization = "words"
    input_vectors: Annotated[int, Field(ge=1, le=100)] = 1
    dropout: float = Field(default=0.0, ge=0, lt=1)
    state_dropout: float = Field(default=0.0, ge=0, lt=1)

    @property
    def states_size(self) -> int:
        """The number of features of a state."""
        raise NotImplementedError(type(self).__name__)

    @property
    def input_size(self) -> int:
        """The number of features of a word."""
        return self.embedding_size * self.input_vectors

    @property
    def sentence_language(self) -> str | None:
        """The language of the sentences into which texts are split; None if they are not."""
        return None

    def stored(self) -> dict[str, Any]:
        """Return what a saved model has of them; options that are newer than some releases only where they are set."""
        values = self.model_dump(mode="json")
        return {name: value for name, value in values.items() if value is not None or name != "sentence_size"}


class CNNOptions(WordOptions):
    """A convolution of words (Kim 2014).

    Args:
        widths: numbers of words that the filters read.
        filters: number of filters of each width.
    """

    model_type: ClassVar[str] = "word-cnn"

    widths: tuple[Width, ...] = Field(default=(3, 4, 5), min_length=1)
    filters: Size = 100

    @property
    def states_size(self) -> int:
        """The number of features of a state."""
        return len(self.widths) * self.filters


class TangOptions(WordOptions):
    """A convolution of words whose windows are averaged (Tang, Qin and Liu 2015).

    Args:
        widths: numbers of words that the filters read.
        filters: number of filters of each width, and size of the document vector, which is the mean over the widths.
        tanh_before_mean: whether tanh is taken of each window, and not of their mean.
        sentences: the same for each sentence, and the ``mean`` of sentences or the last state of a ``gru`` over them;
            by default a text is read as a whole.
        language: ISO 639 code of the language by whose rules texts are split into sentences.
        sentence_length: maximum number of words of a sentence; a longer one continues as the next.
    """

    model_type: ClassVar[str] = "word-tang-cnn"

    widths: tuple[Width, ...] = Field(default=(1, 2, 3), min_length=1)
    filters: Size = 50
    tanh_before_mean: bool = False
    sentences: Literal["mean", "gru"] | None = None
    language: Language = "en"
    sentence_length: Size = 50

    @property
    def states_size(self) -> int:
        """The number of features of a state."""
        return self.filters

    @property
    def sentence_language(self) -> str | None:
        """The language of the sentences, if they are read one by one."""
        return self.language if self.sentences is not None else None


class RecurrentOptions(LayerOptions, WordOptions):
    """Recurrent layers over words."""

    @property
    def states_size(self) -> int:
        """The number of features of a state."""
        return self.hidden_size


class BiLSTMOptions(RecurrentOptions):
    """A recurrent layer that reads the words in both directions.

    Args:
        projection: whether words go through a layer ``tanh(W_e x + b_e)`` of their own size first.
    """

    model_type: ClassVar[str] = "word-bilstm"

    projection: bool = False


class BiLSTMCNNOptions(RecurrentOptions):
    """A recurrent layer and a convolution side by side (Amplayo et al. 2018, HCSC).

    Args:
        widths: numbers of words that the filters read, around each word.
        filters: number of filters of each width.
    """

    model_type: ClassVar[str] = "word-bilstm-cnn"

    hidden_size: Size = 150
    widths: tuple[Width, ...] = Field(default=(3, 5, 7), min_length=1)
    filters: Size = 50

    @property
    def states_size(self) -> int:
        """The number of features of a state."""
        return self.hidden_size + len(self.widths) * self.filters


class HierarchicalOptions(RecurrentOptions):
    """Words to sentences, and sentences to the document: a recurrent layer of each level (Yang et al. 2016).

    Args:
        sentence_size: H of the states of sentences; by default that of words, ``hidden_size``.
        branches: hierarchies side by side, each with weights of its own, as some methods need them.
        language: ISO 639 code of the language by whose rules texts are split into sentences.
        sentence_length: maximum number of words of a sentence; a longer one continues as the next.
    """

    model_type: ClassVar[str] = "word-hierarchical"

    sentence_size: Size | None = None
    branches: Annotated[int, Field(ge=1, le=100)] = 1
    language: Language = "en"
    sentence_length: Size = 50

    @property
    def states_size(self) -> int:
        """The number of features of a state."""
        return self.branches * (self.sentence_size or self.hidden_size)

    @model_validator(mode="after")
    def _two_halves_of_sentences(self) -> Self:
        self._check_halves("sentence_size")
        return self

    @property
    def sentence_language(self) -> str | None:
        """The language of the sentences."""
        return self.language


WORD_MODELS: dict[str, type[WordOptions]] = {
    "cnn": CNNOptions,
    "tang-cnn": TangOptions,
    "bilstm": BiLSTMOptions,
    "bilstm-cnn": BiLSTMCNNOptions,
    "hierarchical": HierarchicalOptions,
}
"""The options of the backbones without pretraining, by the names that recipes give them."""
