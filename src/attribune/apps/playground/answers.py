"""Answers as parts of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jinja2 import Environment

from attribune.apps.playground.session import Answer, PanelAnswer

__all__ = ["answer_html", "matches_html", "panel_html"]

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
_MATCHES = _JINJA.from_string("""
{% if matches %}
<div class="attribune-answer" role="region" aria-label="Answer" tabindex="0"><table>
<tr><th>{{ name }}</th><th>training rows</th></tr>
{% for value, rows in matches %}
<tr><th>{{ value }}</th><td>{{ "{:,}".format(rows) }}</td></tr>
{% endfor %}
</table></div>
{% else %}
<p>No value of {{ name }} contains {{ part }}.</p>
{% endif %}""")


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


def matches_html(name: str, part: str, matches: Sequence[tuple[str, int]]) -> str:
    """Render the values of an attribute whose names contain a part, with their training rows."""
    return _MATCHES.render(name=name, part=repr(part), matches=matches)
