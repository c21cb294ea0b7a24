"""Recurrent and convolutional layers over words against loops written from their equations, in float64."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from families import tiny_backbone
from slow_layers import cut_sentences, draw, gap, matrix_times, mean, random_lstm, slow_lstm, slow_states
from tiny_models import at_random
from torch import Tensor, nn

from attribune import functional
from attribune.functional.recurrent import LSTMWeights
from attribune_lab import functional as lab
from attribune_lab.backbones.models import WordModel
from attribune_lab.functional.convolution import Filters

TOLERANCE = 1e-10
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
SCATTERED = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]])


def slow_direction(x: Tensor, mask: Tensor, own: LSTMWeights, *, reverse: bool, padding: str) -> Tensor:
    H = own.W_hh.shape[1]
    result = torch.zeros(*x.shape[:2], H, dtype=torch.float64)
    for row in range(len(x)):
        places = [t for t in range(x.shape[1]) if padding == "run" or mask[row, t]]
        if reverse:
            places = places[::-1]
        for place, state in zip(places, slow_lstm([x[row, t].tolist() for t in places], own), strict=True):
            result[row, place] = torch.tensor(state, dtype=torch.float64)
    return result


@pytest.mark.parametrize("padding", ["packed", "run"])
@pytest.mark.parametrize("mask", [MASK, SCATTERED], ids=["right", "scattered"])
@pytest.mark.parametrize(("E", "H"), [(5, 3), (2, 4)])
def test_both_directions(E: int, H: int, mask: Tensor, padding: Any) -> None:
    x, forward, backward = draw(4, 6, E), random_lstm(E, H), random_lstm(E, H)
    found = functional.bilstm(x, mask, forward, backward, padding=padding)
    expected = [
        slow_direction(x, mask, own, reverse=reverse, padding=padding)
        for own, reverse in ((forward, False), (backward, True))
    ]
    assert found.shape == (4, 6, 2 * H)
    assert gap(found, torch.cat(expected, dim=-1)) < TOLERANCE


def test_it_is_that_of_torch() -> None:
    own = nn.LSTM(5, 3, batch_first=True).double()
    parameters = dict(own.named_parameters())
    named = LSTMWeights(*(parameters[f"{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
    x = draw(2, 7, 5)
    assert gap(functional.lstm(x, torch.ones(2, 7), named), own(x)[0]) < TOLERANCE


def test_padding_changes_nothing_that_is_real() -> None:
    forward, backward = random_lstm(5, 3), random_lstm(5, 3)
    x = draw(4, 6, 5)
    found = functional.bilstm(x, MASK, forward, backward)
    wide = torch.cat([x, 9 * draw(4, 3, 5)], dim=1)
    again = functional.bilstm(wide, torch.nn.functional.pad(MASK, (0, 3)), forward, backward)
    assert gap(again[:, :6], found) < TOLERANCE
    assert not again[:, 6:].any()
    assert not found[MASK == 0].any()


def test_gradients_reach_every_weight_and_no_padding() -> None:
    own = LSTMWeights(*(one.requires_grad_() for one in random_lstm(5, 3)))
    x = draw(4, 6, 5).requires_grad_()
    functional.lstm(x, SCATTERED, own, reverse=True).sum().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in own)
    assert x.grad is not None
    assert torch.equal(x.grad.abs().sum(dim=-1) > 0, SCATTERED.bool())


def filters(*widths: int) -> list[Filters]:
    return [Filters(draw(4, width, 5), draw(4)) for width in widths]


def slow_windows(words: Tensor, one: Filters) -> list[list[float]]:
    """The maps of all windows of a text, which is padded to the width of the filter."""
    width, b = one.W.shape[1], one.b.tolist()
    padded = words.tolist() + [[0.0] * words.shape[1]] * max(0, width - len(words))

    def window(t: int, f: int) -> float:
        pairs = [pair for i in range(width) for pair in zip(one.W[f, i].tolist(), padded[t + i], strict=True)]
        return b[f] + sum(w * x for w, x in pairs)

    return [[window(t, f) for f in range(len(one.b))] for t in range(len(padded) - width + 1)]


def slow_centred(words: Tensor, one: Filters) -> list[list[float]]:
    """The maps around each word: an even width has one more word behind it than before; zeros beyond the text."""
    width, zeros, b = one.W.shape[1], [0.0] * words.shape[1], one.b.tolist()
    behind = width // 2
    text = [*[zeros] * (width - 1 - behind), *words.tolist(), *[zeros] * behind]

    def window(t: int, f: int) -> float:
        pairs = [pair for i in range(width) for pair in zip(one.W[f, i].tolist(), text[t + i], strict=True)]
        return max(0.0, b[f] + sum(w * x for w, x in pairs))

    return [[window(t, f) for f in range(len(one.b))] for t in range(len(words))]


def slow_tang(words: Tensor, sets: list[Filters], *, tanh_before_mean: bool = False) -> list[float]:
    """The document vector of Tang, Qin and Liu 2015: the mean over the widths; zeros for a text without words."""
    if not len(words):
        return [0.0] * len(sets[0].b)
    outputs = []
    for one in sets:
        windows = slow_windows(words, one)
        if tanh_before_mean:
            windows = [[math.tanh(value) for value in window] for window in windows]
        means = mean(windows)
        outputs.append(means if tanh_before_mean else [math.tanh(x) for x in means])
    return mean(outputs)


@pytest.mark.parametrize("widths", [(3, 4, 5), (1,), (2, 7)])
def test_convolved_words(widths: tuple[int, ...]) -> None:
    """Their largest value over the words is that over the windows (Kim 2014)."""
    x, sets = draw(4, 6, 5), filters(*widths)
    found = functional.max_tokens(lab.convolved_words(x, MASK, sets), MASK)
    for row in range(4):
        words = x[row, : int(MASK[row].sum())]
        expected = [
            max(max(0.0, window[f]) for window in slow_windows(words, one)) if len(words) else 0.0
            for one in sets
            for f in range(4)
        ]
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("tanh_before_mean", [False, True])
def test_averaged_windows(tanh_before_mean: bool) -> None:
    """The document vector of Tang, Qin and Liu 2015."""
    x, sets = draw(4, 6, 5), filters(1, 2, 3)
    found = lab.averaged_windows(x, MASK, sets, tanh_before_mean=tanh_before_mean)
    for row in range(4):
        expected = slow_tang(x[row, : int(MASK[row].sum())], sets, tanh_before_mean=tanh_before_mean)
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("widths", [(3, 5, 7), (1,), (2, 4), (9,)])
def test_windows_around_each_word(widths: tuple[int, ...]) -> None:
    """The convolution of Amplayo et al. 2018, of windows as wide as wanted; nothing stands at padding."""
    x, sets = draw(4, 6, 5), filters(*widths)
    found = lab.convolved_words(x, MASK, sets, centred=True)
    assert found.shape == (4, 6, 4 * len(widths))
    for row in range(4):
        words = x[row, : int(MASK[row].sum())]
        each = [slow_centred(words, one) for one in sets]
        for t in range(len(words)):
            expected = [value for maps in each for value in maps[t]]
            assert found[row, t].tolist() == pytest.approx(expected, abs=TOLERANCE)
        assert not found[row, len(words) :].any()


def test_a_window_around_a_word_is_not_the_one_from_it_on() -> None:
    x, sets = draw(1, 6, 5), filters(3)
    words = torch.nn.functional.pad(x[0], (0, 0, 0, 2))
    from_it_on = torch.tensor(slow_windows(words, sets[0]), dtype=torch.float64).relu()
    found = lab.convolved_words(x, MASK[:1], sets, centred=True)[0]
    assert gap(found, from_it_on) > 1e-3


@pytest.mark.parametrize("name", ["convolved_words", "averaged_windows", "centred"])
def test_words_beyond_the_text_are_not_read(name: str) -> None:
    centred = partial(lab.convolved_words, centred=True)
    sets, function = filters(2, 3), centred if name == "centred" else getattr(lab, name)
    x = draw(4, 6, 5)
    other = torch.where(MASK.bool().unsqueeze(-1), x, 9 * torch.randn_like(x))
    assert torch.equal(function(x, MASK, sets), function(other, MASK, sets))


UNKNOWN, END = 1, 6
SMALL: dict[str, dict[str, Any]] = {
    "word-cnn": {"embedding_size": 5, "widths": [1, 2, 3], "filters": 4},
    "word-tang-cnn": {"embedding_size": 5, "widths": [1, 2, 3], "filters": 4, "sentence_length": 3},
    "word-bilstm": {"embedding_size": 5, "hidden_size": 6},
    "word-bilstm-cnn": {"embedding_size": 5, "hidden_size": 6, "widths": [3, 4], "filters": 4},
}
# Padding, words that are unknown, and ends of sentences anywhere, also one after the other and where a text begins.
TEXTS = torch.tensor(
    [[7, 1, 8, 6, 9, 2, 3, 4, 1], [6, 6, 1, 5, 0, 0, 0, 0, 0], [4, 3, 2, 9, 8, 6, 1, 6, 7], [1, 1, 6, 0, 0, 0, 0, 0, 0]]
)


def small(model_type: str, **options: Any) -> WordModel:
    """A small backbone in float64 with the same random parameters at each call; that of padding is random, too."""
    torch.manual_seed(5)
    backbone = tiny_backbone(model_type, options={**SMALL[model_type], **options})
    if model_type == "word-tang-cnn":
        backbone.config.sentence_end_id = END
    return at_random(backbone).double()


def vectors_of(backbone: WordModel, ids: list[int]) -> Tensor:
    return backbone.embeddings.weight.detach()[torch.tensor(ids, dtype=torch.long)]


@pytest.mark.parametrize("tanh_before_mean", [False, True])
@pytest.mark.parametrize("sentences", [None, "mean", "gru"])
def test_the_convolution_of_tang(sentences: str | None, tanh_before_mean: bool) -> None:
    """Of a whole text, where ends of sentences are words like others, or of each sentence."""
    backbone = small("word-tang-cnn", sentences=sentences, tanh_before_mean=tanh_before_mean)
    with torch.no_grad():
        found = backbone(TEXTS, (TEXTS != 0).long())
    assert found.attention_mask.tolist() == [[1]] * 4
    for row, ids in enumerate(TEXTS.tolist()):
        cut = [[word for word in ids if word]] if sentences is None else cut_sentences(ids, end=END)
        each = [
            slow_tang(vectors_of(backbone, words), backbone.filters.each(), tanh_before_mean=tanh_before_mean)
            for words in cut
        ]
        if sentences == "gru":
            with torch.no_grad():
                expected = backbone.gru(torch.tensor([each], dtype=torch.float64))[0][0, -1].tolist()
        else:
            expected = mean(each)
        assert found.last_hidden_state[row, 0].tolist() == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("sentences", [None, "mean", "gru"])
def test_a_text_without_words_has_no_vector(sentences: str | None) -> None:
    backbone = small("word-tang-cnn", sentences=sentences, unknown_words="drop")
    ids = torch.tensor([[7, 8, 9], [1, 1, 1], [0, 0, 0]])
    with torch.no_grad():
        found = backbone(ids, (ids != 0).long())
    assert found.attention_mask.tolist() == [[1], [0], [0]]
    assert found.last_hidden_state[0].all()
    assert not found.last_hidden_state[1:].any()


def test_sentences_weigh_the_same_however_long_they_are() -> None:
    ids = torch.tensor([[7, 8, 9, 6, 4]])
    with torch.no_grad():
        found = small("word-tang-cnn", sentences="mean")(ids).last_hidden_state
        assert gap(found, small("word-tang-cnn", sentences=None)(ids).last_hidden_state) > 1e-3


@pytest.mark.parametrize("bidirectional", [True, False])
def test_words_go_through_a_layer_first(bidirectional: bool) -> None:
    """The base model of Amplayo 2019: ``tanh(W_e x_t + b_e)``, then the recurrent layer."""
    backbone = small("word-bilstm", projection=True, bidirectional=bidirectional)
    with torch.no_grad():
        found = backbone(TEXTS, (TEXTS != 0).long()).last_hidden_state
    W_e, b_e = backbone.projection.weight.tolist(), backbone.projection.bias.tolist()
    for row, ids in enumerate(TEXTS.tolist()):
        words = [
            [math.tanh(y + b) for y, b in zip(matrix_times(W_e, x), b_e, strict=True)]
            for x in vectors_of(backbone, [word for word in ids if word]).tolist()
        ]
        states = slow_states(backbone.recurrent.directions(), words)
        assert gap(found[row, : len(words)], states) < TOLERANCE
        assert not found[row, len(words) :].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "options"),
    [
        ("word-cnn", {}),
        ("word-bilstm", {}),
        ("word-bilstm", {"bidirectional": False, "projection": True}),
        ("word-bilstm-cnn", {}),
        ("word-tang-cnn", {}),
        ("word-tang-cnn", {"sentences": "mean"}),
        ("word-tang-cnn", {"sentences": "gru"}),
    ],
)
def test_dropping_unknown_words_is_deleting_them(model_type: str, options: dict[str, Any]) -> None:
    """The states of the words that are left are those of the text without the others, which have none."""
    backbone = small(model_type, **options, unknown_words="drop")
    mask = (TEXTS != 0).long()
    with torch.no_grad():
        found = backbone(TEXTS, mask)
        for row, ids in enumerate(TEXTS.tolist()):
            left = [word for word in ids if word not in (0, UNKNOWN)]
            expected = backbone(torch.tensor([left])).last_hidden_state[0]
            if model_type == "word-tang-cnn":
                assert gap(found.last_hidden_state[row], expected) < TOLERANCE
                continue
            kept = mask[row].bool() & (TEXTS[row] != UNKNOWN)
            assert found.attention_mask[row].tolist() == kept.long().tolist()
            states = found.last_hidden_state[row][kept]
            assert gap(states, expected) < TOLERANCE
            assert not found.last_hidden_state[row][~kept].any()
        usual = small(model_type, **options)(TEXTS, mask).last_hidden_state
    assert gap(usual, found.last_hidden_state) > 1e-3


def test_dropped_words_are_not_in_windows_around_others() -> None:
    """Against the loops: the filters around each word read the text as if they were not there."""
    backbone = small("word-bilstm-cnn", unknown_words="drop")
    with torch.no_grad():
        found = backbone(TEXTS, (TEXTS != 0).long()).last_hidden_state[..., 6:]
    for row, ids in enumerate(TEXTS.tolist()):
        places = [t for t, word in enumerate(ids) if word not in (0, UNKNOWN)]
        words = vectors_of(backbone, [ids[t] for t in places])
        each = [slow_centred(words, one) for one in backbone.filters.each()]
        expected = torch.zeros(9, 8, dtype=torch.float64)
        for number, place in enumerate(places):
            expected[place] = torch.tensor([value for maps in each for value in maps[number]], dtype=torch.float64)
        assert gap(found[row], expected) < TOLERANCE


@pytest.mark.parametrize("model_type", ["word-bilstm", "word-bilstm-cnn"])
def test_padding_has_zeros_for_word_vectors_whatever_the_table_has(model_type: str) -> None:
    backbone, mask = small(model_type, padding="run"), (TEXTS != 0).long()
    with torch.no_grad():
        expected = backbone(TEXTS, mask).last_hidden_state
        backbone.embeddings.weight[0] = 3.0
        found = backbone(TEXTS, mask).last_hidden_state
    assert torch.equal(found, expected)


@pytest.mark.parametrize("model_type", ["word-bilstm", "word-bilstm-cnn"])
def test_a_layer_that_runs_over_padding_does_not_read_dropped_words(model_type: str) -> None:
    """Against the loops: words that are left, and then padding up to the length of the batch."""
    backbone = small(model_type, unknown_words="drop", padding="run")
    with torch.no_grad():
        found = backbone(TEXTS, (TEXTS != 0).long()).last_hidden_state[..., :6]
    for row, ids in enumerate(TEXTS.tolist()):
        places = [t for t, word in enumerate(ids) if word not in (0, UNKNOWN)]
        words = vectors_of(backbone, [ids[t] for t in places]).tolist() + [[0.0] * 5] * (len(ids) - len(places))
        states = slow_states(backbone.recurrent.directions(), words)
        for place, state in zip(places, states, strict=False):
            assert found[row, place].tolist() == pytest.approx(state, abs=TOLERANCE)
