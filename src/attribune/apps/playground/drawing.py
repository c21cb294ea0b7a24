"""Answers, and the map of values, as parts of the page: tables with bars, and a drawing with names on hovering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from jinja2 import Environment
from matplotlib.colors import to_hex

from attribune.apps.playground.session import Answer, PanelAnswer
from attribune.core.arrays import Array
from attribune.core.wording import excerpt

_SURE = 0.01  # nats of uncertainty, below which there is none to speak of
_MAX_NUMBERS = 12  # classes in a table, the most probable ones

_JINJA = Environment(autoescape=True, trim_blocks=True)
_ANSWER = _JINJA.from_string("""
<div class="attribune-answer" role="region" aria-label="Answer" tabindex="0"><table>
<tr><td></td>{% for case in answer.cases %}<th>{{ case }}</th>{% endfor %}</tr>
<tr><th>prediction</th>{% for one in answer.predictions %}<td class=prediction>{{ one }}</td>{% endfor %}</tr>
{% for name, row in numbers.items() %}
<tr><th>{{ name }}</th>
{% for number in row %}
{% if answer.probabilities %}
<td>{{ "%.3f" % number }}
<span class=track><span class=bar style="width:{{ "%.1f" % (100 * number) }}%"></span></span></td>
{% else %}
<td>{{ "%.4g" % number }}</td>
{% endif %}
{% endfor %}
</tr>
{% endfor %}
</table>
{% for note in answer.notes %}<p>{{ note }}.</p>{% endfor %}
{% if hidden %}<p>{{ "{:,}".format(hidden) }} less probable ones are not shown.</p>{% endif %}
</div>""")
_PANEL = _JINJA.from_string("""
<div class="attribune-answer" role="region" aria-label="Answer" tabindex="0">
<p>{{ "{:,}".format(answer.members) }} values of {{ name }} together:
<span class=prediction>{{ answer.prediction }}</span></p>
{% if numbers %}
<table>
<tr><td></td><th>mean probability</th><th>values who say so</th></tr>
{% for name in numbers %}
<tr><th>{{ name }}</th>
{% for number in (answer.probabilities[name], answer.shares[name]) %}
<td>{{ "%.3f" % number }}
<span class=track><span class=bar style="width:{{ "%.1f" % (100 * number) }}%"></span></span></td>
{% endfor %}
</tr>
{% endfor %}
</table>
{% endif %}
{% for sentence in sentences %}<p>{{ sentence }}</p>{% endfor %}
{% if answer.dissenters %}<p>Those who dissent, the farthest first: {{ answer.dissenters | join(", ") }}.</p>
{% elif numbers %}<p>Nobody dissents.</p>{% endif %}
{% for note in answer.notes %}<p>{{ note }}.</p>{% endfor %}
{% if hidden %}<p>{{ "{:,}".format(hidden) }} less probable ones are not shown.</p>{% endif %}
</div>""")
_WIDTH, _HEIGHT, _MARGIN = 800, 440, 40
_LETTER, _LINE = 7.5, 17  # size of a label
_EDGE = 5  # values at each end of a component whose names are drawn
_NAME = 22  # characters
_UNKNOWN = "#adb5bd"  # of a value without the number that colours the others
_COLOURS = matplotlib.colormaps["viridis"]
_DARKEST, _LIGHTEST = 0.2, 0.95  # part of the colours that is seen on white and on black
_SVG = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""
<div class="attribune-map" role="region" aria-label="Map" tabindex="0">
<svg viewBox="0 0 {{ width }} {{ height }}" role="img" aria-label="Map of {{ points | length }} values">
<defs><linearGradient id="attribune-shades">
{% for colour in shades %}<stop offset="{{ 25 * loop.index0 }}%" stop-color="{{ colour }}"/>{% endfor %}
</linearGradient></defs>
{% for point in points %}
<circle cx="{{ "%.1f" % point.x }}" cy="{{ "%.1f" % point.y }}" r="{{ "%.1f" % point.radius }}"
fill="{{ point.colour }}"><title>{{ point.title }}</title></circle>
{% endfor %}
{% for label in labels %}
<text x="{{ "%.1f" % label.x }}" y="{{ "%.1f" % label.y }}" text-anchor="{{ label.anchor }}">{{ label.name }}</text>
{% endfor %}
{% if ends %}
<rect x="40" y="{{ height - 14 }}" width="200" height="10" rx="3" fill="url(#attribune-shades)"/>
<text x="40" y="{{ height - 20 }}">{{ ends[0] }}</text>
<text x="240" y="{{ height - 20 }}" text-anchor="end">{{ ends[1] }}</text>
<text x="252" y="{{ height - 5 }}">{{ by }}</text>
{% endif %}
<text x="{{ width }}" y="{{ height - 5 }}" text-anchor="end">first component across, second upwards</text>
</svg></div>""")


def answer_html(answer: Answer) -> str:
    """Render an answer as a table: the prediction of each case, and the numbers with bars, ratings in their order."""
    order = np.argsort(-answer.numbers[0], kind="stable")[:_MAX_NUMBERS].tolist()
    if answer.is_ordered:
        order.sort()
    # That of a task of numbers has its row already; a class may have this name.
    rows = [index for index in order if answer.probabilities or answer.names[index] != "prediction"]
    numbers = {answer.names[index]: answer.numbers[:, index].tolist() for index in rows}
    return _ANSWER.render(answer=answer, numbers=numbers, hidden=len(answer.names) - len(order))


def panel_html(answer: PanelAnswer, name: str) -> str:
    """Render what a panel says: mean probabilities and shares with bars, and who dissents."""
    numbers = sorted(answer.probabilities, key=lambda one: -answer.probabilities[one])
    numbers, hidden = numbers[:_MAX_NUMBERS], len(numbers[_MAX_NUMBERS:])
    if answer.is_ordered:
        numbers.sort(key=list(answer.probabilities).index)
    sentences = _panel_sentences(answer.figures)
    return _PANEL.render(answer=answer, name=name, numbers=numbers, hidden=hidden, sentences=sentences)


def _panel_sentences(figures: Mapping[str, float]) -> list[str]:
    """Say how far the values are apart, and why the answer is uncertain."""
    sentences = []
    if "expected" in figures:
        sentences.append(f"The mean of their numbers is {figures['expected']:.3g}.")
    if "spread" in figures:
        sentences.append(f"The standard deviation of their numbers is {figures['spread']:.2g}.")
    if "disagreement" not in figures:
        return sentences
    uncertainty = figures["disagreement"] + figures["doubt"]
    if uncertainty < _SURE:
        return [*sentences, "The model is sure of the answer, and the same for all values."]
    share = figures["disagreement"] / uncertainty
    return [
        *sentences,
        f"The answer is uncertain for two reasons: {share:.0%} because the values give different answers, and "
        f"{1 - share:.0%} because the model is undecided about each of them.",
    ]


def map_svg(values: Sequence[str], positions: Array, rows: Array, numbers: Array, *, by: str) -> str:
    """Draw values as points.

    Args:
        positions: (n, 2), of which the second goes upwards.
        rows: (n,) training rows of each value; a point with more is larger.
        numbers: (n,) what colours the points; NaN where it is not known.
        by: its name.
    """
    low, high = positions.min(axis=0), positions.max(axis=0)
    inner = np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN - 30])
    places = _MARGIN + (positions - low) / np.where(high > low, high - low, 1) * inner
    places[:, 1] = _HEIGHT - 30 - places[:, 1]
    known = numbers[np.isfinite(numbers)]
    ends = (float(known.min()), float(known.max())) if len(known) else None
    points = [
        {
            "x": x,
            "y": y,
            "radius": 3 + 1.5 * float(np.log10(max(count, 1))),
            "colour": _UNKNOWN if ends is None or not np.isfinite(number) else _colour(number, *ends),
            "title": f"{value}: {by} {number:.3g}, {count:,} training rows",
        }
        for value, (x, y), count, number in zip(values, places.tolist(), rows.tolist(), numbers.tolist(), strict=True)
    ]
    return _SVG.render(
        width=_WIDTH,
        height=_HEIGHT,
        points=points,
        labels=list(_labels(values, places)),
        shades=[_colour(share, 0, 4) for share in range(5)],
        ends=ends and [f"{end:.3g}" for end in ends],
        by=by,
    )


def _colour(number: float, low: float, high: float) -> str:
    share = (number - low) / (high - low) if high > low else 0.5
    return to_hex(_COLOURS(_DARKEST + (_LIGHTEST - _DARKEST) * share))


def _labels(values: Sequence[str], places: Array) -> Iterator[dict[str, Any]]:
    """Yield the names of values at the edges, of those whose names would overlap the first."""
    orders = [np.argsort(sign * places[:, axis], kind="stable") for axis in (0, 1) for sign in (1, -1)]
    taken: list[tuple[float, float, float]] = []
    for index in np.stack([order[:_EDGE] for order in orders], axis=1).reshape(-1).tolist():
        x, y = places[index].tolist()
        name = excerpt(values[index], _NAME)
        is_right = x > _WIDTH / 2
        left = x - 9 - _LETTER * len(name) if is_right else x + 9
        right = left + _LETTER * len(name)
        if any(abs(y - line) < _LINE and left < end and begin < right for begin, end, line in taken):
            continue
        taken.append((left, right, y))
        side, anchor = (-9, "end") if is_right else (9, "start")
        yield {"x": x + side, "y": y + 4, "anchor": anchor, "name": name}
