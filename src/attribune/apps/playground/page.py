"""The page of the playground, in gradio; nothing in it is loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import gradio as gr
import numpy as np
import pandas as pd
from jinja2 import Environment
from starlette.middleware import Middleware

from attribune.apps.playground.guard import PageGuard
from attribune.apps.playground.session import Answer, PanelAnswer, Session, ValueMap, is_listed, takes_several
from attribune.errors import AttribuneError
from attribune.schema import FittedAttribute

__all__ = ["CSS", "build_page", "launch"]

_MAX_CHOICES = 200  # values in a list to pick from; others are typed
_MAX_NUMBERS = 12  # classes in a table, the most probable ones
_ROWS = "training rows (log10)"
CSS = """
.attribune-answer { overflow-x: auto; }
.attribune-answer table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.attribune-answer th, .attribune-answer td { padding: .35rem .6rem; text-align: right; vertical-align: bottom; }
.attribune-answer tr:first-child th { overflow-wrap: anywhere; min-width: 5rem; max-width: 14rem; }
.attribune-answer tr th:first-child { text-align: left; position: sticky; left: 0; min-width: 0; white-space: nowrap;
  background: var(--background-fill-primary); }
.attribune-answer .bar { display: block; height: .4rem; background: #1864ab; border-radius: .2rem; min-width: 1px; }
.attribune-answer .track { display: block; width: 4rem; margin-left: auto; background: var(--border-color-primary);
  border-radius: .2rem; }
.attribune-answer .prediction { font-weight: 600; }
"""

_JINJA = Environment(autoescape=True, trim_blocks=True)
_ANSWER = _JINJA.from_string("""
<div class=attribune-answer><table>
<tr><th></th>{% for case in answer.cases %}<th>{{ case }}</th>{% endfor %}</tr>
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
<div class=attribune-answer>
<p>{{ "{:,}".format(answer.members) }} values of {{ name }} together:
<span class=prediction>{{ answer.prediction }}</span></p>
{% if numbers %}
<table>
<tr><th></th><th>mean probability</th><th>values who say so</th></tr>
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
<p>{% for figure, number in answer.figures.items() %}
{{ figure }} {{ "%.3g" % number }}{{ "" if loop.last else "," }}
{% endfor %}</p>
{% if answer.dissenters %}<p>Those who dissent, the farthest first: {{ answer.dissenters | join(", ") }}.</p>
{% elif numbers %}<p>Nobody dissents.</p>{% endif %}
{% for note in answer.notes %}<p>{{ note }}.</p>{% endfor %}
{% if hidden %}<p>{{ "{:,}".format(hidden) }} less probable ones are not shown.</p>{% endif %}
</div>""")
_MATCHES = _JINJA.from_string("""
{% if matches %}
<div class=attribune-answer><table>
<tr><th>{{ name }}</th><th>training rows</th></tr>
{% for value, rows in matches %}
<tr><th>{{ value }}</th><td>{{ "{:,}".format(rows) }}</td></tr>
{% endfor %}
</table></div>
{% else %}
<p>No value of {{ name }} contains {{ part }}.</p>
{% endif %}""")


def build_page(session: Session, *, title: str) -> gr.Blocks:
    """Build the page of a session."""
    page = gr.Blocks(title=title, analytics_enabled=False)
    with page:
        gr.Markdown(f"# {html.escape(title)}")
        for note in session.notes:
            gr.Markdown(html.escape(note))
        with gr.Tab("A text"):
            text, pickers = _text_and_values(session)
            button = gr.Button("Predict", variant="primary", elem_id="predict")
            answer = gr.HTML(elem_id="answer")
            button.click(_with_alerts(session, _ask), [text, *pickers], answer, api_name="predict")
        names = [attribute.name for attribute in session.attributes if is_listed(attribute)]
        if names:
            with gr.Tab("Two values"):
                _two_values(session, names, text, pickers)
            with gr.Tab("A panel"):
                _panel(session, names, text, pickers)
            with gr.Tab("Map of the values"):
                _map(session, names, page)
            with gr.Tab("Search a value"):
                _search(session, names)
    return page


def launch(session: Session, *, title: str, port: int) -> tuple[gr.Blocks, str]:
    """Serve the page to this machine alone, and return it with its URL; port 0 takes a free one.

    Raises:
        OSError: for a port that is taken.
    """
    page = build_page(session, title=title)
    theme = gr.themes.Default(font=("system-ui", "sans-serif"), font_mono=("ui-monospace", "monospace"))
    _, address, _ = page.launch(
        server_name="127.0.0.1",
        server_port=port or None,
        quiet=True,
        prevent_thread_lock=True,
        share=False,
        app_kwargs={"middleware": [Middleware(PageGuard)]},
        theme=theme,
        css=CSS,
        footer_links=[],
    )
    return page, address


def _text_and_values(session: Session) -> tuple[gr.Textbox, list[Any]]:
    examples = session.examples()
    if examples:
        example = gr.Dropdown(choices=[(_short(one), one) for one in examples], label="A text of the training rows")
    text = gr.Textbox(label="Text", lines=4, elem_id="text", value=examples[0] if examples else "")
    if examples:
        example.input(lambda chosen: chosen, example, text, api_visibility="private")
    pair = [gr.Textbox(label="Second text", lines=4, elem_id="second-text")] if session.reads_pairs else []
    with gr.Row():
        return text, [*pair, *(_picker(attribute) for attribute in session.attributes)]


def _picker(attribute: FittedAttribute) -> Any:
    name, elem_id = attribute.name, f"value-{attribute.name}"
    if not is_listed(attribute):
        return gr.Textbox(label=name, elem_id=elem_id)
    return gr.Dropdown(
        choices=list(attribute.values[:_MAX_CHOICES]),
        value=[] if takes_several(attribute) else None,
        multiselect=takes_several(attribute),
        allow_custom_value=True,
        label=name,
        info=f"{len(attribute.values):,} values; any may be typed",
        elem_id=elem_id,
    )


def _ask(session: Session, text: str, *picked: Any) -> str:
    second, *values = picked if session.reads_pairs else ("", *picked)
    return answer_html(session.ask(text, _assignments(session, values), second=second))


def _assignments(session: Session, picked: Sequence[Any]) -> dict[str, list[str]]:
    """Map each attribute to the values that were picked or typed, without empty ones."""
    values = {
        attribute.name: [str(one) for one in (value if isinstance(value, list) else [value]) if one not in (None, "")]
        for attribute, value in zip(session.attributes, picked, strict=True)
    }
    return {name: listed for name, listed in values.items() if listed}


def _with_alerts(session: Session, handler: Callable[..., str]) -> Callable[..., str]:
    """Make the handler of a button, which shows an error of the user in place of the answer."""

    def handle(*inputs: Any) -> str:
        try:
            return handler(session, *inputs)
        except AttribuneError as error:
            return f'<p role="alert">{html.escape(str(error))}</p>'

    return handle


def answer_html(answer: Answer) -> str:
    """Render an answer as a table: the prediction of each case, and the numbers with bars."""
    order = np.argsort(-answer.numbers[0], kind="stable")[:_MAX_NUMBERS].tolist()
    numbers = {answer.names[index]: answer.numbers[:, index].tolist() for index in order}
    return _ANSWER.render(answer=answer, numbers=numbers, hidden=len(answer.names) - len(order))


def _two_values(session: Session, names: Sequence[str], text: gr.Textbox, pickers: Sequence[Any]) -> None:
    gr.Markdown("The text of the first tab as if written with the one and with the other value.")
    attribute = gr.Dropdown(choices=list(names), value=names[0], label="Attribute", elem_id="two-attribute")

    def choices(name: str) -> list[dict[str, Any]]:
        values = list(session.predictor.schema[name].values[:_MAX_CHOICES])
        return [{"choices": values, "value": value} for value in (*values[:2], None, None)[:2]]

    with gr.Row():
        two = [
            gr.Dropdown(**shown, allow_custom_value=True, label=f"{word} value", elem_id=f"two-{word.lower()}")
            for shown, word in zip(choices(names[0]), ("First", "Second"), strict=True)
        ]
    button = gr.Button("Compare", variant="primary", elem_id="compare")
    answer = gr.HTML(elem_id="two-answer")

    def refill(name: str) -> list[Any]:
        return [gr.Dropdown(**shown) for shown in choices(name)]

    attribute.change(refill, attribute, two, api_visibility="private")
    button.click(_with_alerts(session, _compare), [text, attribute, *two, *pickers], answer, api_name="compare")


def _compare(session: Session, text: str, attribute: str, first: Any, second: Any, *picked: Any) -> str:
    two = [str(one) for one in (first, second) if one not in (None, "")]
    if len(two) < 2 or two[0] == two[1]:
        return '<p role="alert">pick two different values</p>'
    pair, *values = picked if session.reads_pairs else ("", *picked)
    answer = session.compare(text, _assignments(session, values), attribute, two, second=pair)
    return answer_html(answer) + "".join(_about(session, attribute, value) for value in two)


def _about(session: Session, attribute: str, value: str) -> str:
    rows = dict(session.search(attribute, value)).get(value)
    known = f" ({rows:,} training rows)" if rows is not None else ""
    try:
        near = ", ".join(f"{name} {cosine:+.2f}" for name, cosine in session.neighbours(attribute, value))
    except AttribuneError:
        near = ""
    nearest = f" Nearest vectors, by cosine: {html.escape(near)}." if near else ""
    return f"<p>{html.escape(value)}{known}.{nearest}</p>"


def _panel(session: Session, names: Sequence[str], text: gr.Textbox, pickers: Sequence[Any]) -> None:
    if (reason := session.no_panel) is not None:
        gr.Markdown(html.escape(reason))
        return
    gr.Markdown(
        "The text of the first tab as if each of the values had written or judged it. Disagreement is how much their "
        "answers differ, doubt how undecided the model is about each of them, both in nats; spread is the standard "
        "deviation of their numbers."
    )
    attribute = gr.Dropdown(choices=list(names), value=names[0], label="Attribute", elem_id="panel-attribute")
    button = gr.Button("Ask", variant="primary", elem_id="panel")
    answer = gr.HTML(elem_id="panel-answer")
    button.click(_with_alerts(session, _ask_panel), [text, attribute, *pickers], answer, api_name="panel")


def _ask_panel(session: Session, text: str, attribute: str, *picked: Any) -> str:
    pair, *values = picked if session.reads_pairs else ("", *picked)
    answer = session.ask_panel(text, _assignments(session, values), attribute, second=pair)
    return panel_html(answer, attribute)


def panel_html(answer: PanelAnswer, name: str) -> str:
    """Render what a panel says: mean probabilities and shares with bars, and who dissents."""
    numbers = sorted(answer.probabilities, key=lambda one: -answer.probabilities[one])
    hidden = len(numbers[_MAX_NUMBERS:])
    return _PANEL.render(answer=answer, name=name, numbers=numbers[:_MAX_NUMBERS], hidden=hidden)


def _map(session: Session, names: Sequence[str], page: gr.Blocks) -> None:
    value_map = cache(session.map)
    colours = session.mean_labels
    with gr.Row():
        attribute = gr.Dropdown(choices=list(names), value=names[0], label="Attribute", elem_id="map-attribute")
        colour = gr.Dropdown(choices=[*colours, _ROWS], value=(colours or [_ROWS])[-1], label="Coloured by")
    plot = gr.ScatterPlot(x="first component", y="second component", color="colour", tooltip="all", height=420)
    caption = gr.Markdown(elem_id="map-caption")

    def draw(name: str, by: str) -> tuple[Any, str]:
        shown = value_map(name)
        if shown is None:
            return None, f"This model has no vectors of {name}, or fewer than three values."
        shades = np.log10(np.maximum(shown.rows, 1)) if by == _ROWS else shown.means[by]
        frame = pd.DataFrame(
            {
                "value": shown.values,
                "first component": shown.positions[:, 0],
                "second component": shown.positions[:, 1],
                "training rows": shown.rows,
                "colour": np.round(shades, 3),
            }
        )
        return frame, _map_caption(session, name, shown, by)

    for control in (attribute, colour):
        control.change(draw, [attribute, colour], [plot, caption], api_visibility="private")
    page.load(draw, [attribute, colour], [plot, caption], api_visibility="private")


def _map_caption(session: Session, name: str, shown: ValueMap, by: str) -> str:
    total = len(session.predictor.schema[name].values)
    which = f"the {len(shown.values):,} most frequent of {total:,}" if len(shown.values) < total else f"{total:,}"
    caption = (
        f"The vectors of {which} values; the two components explain {100 * shown.explained_variance_ratio:.0f} % of "
        "their variance."
    )
    if by == _ROWS:
        return caption
    means = shown.means[by]
    known = ~np.isnan(means)
    if known.sum() < 3 or not np.std(means[known]):
        return caption
    r = [_correlation(shown.positions[known, axis], means[known]) for axis in (0, 1)]
    return f"{caption} Correlation of {by} with the first component {r[0]:+.2f}, with the second {r[1]:+.2f}."


def _correlation(first: Any, second: Any) -> float:
    return float(np.corrcoef(first, second)[0, 1]) if np.std(first) else 0.0


def _search(session: Session, names: Sequence[str]) -> None:
    with gr.Row():
        attribute = gr.Dropdown(choices=list(names), value=names[0], label="Attribute", elem_id="search-attribute")
        query = gr.Textbox(label="Part of its name", elem_id="search-words")
    answer = gr.HTML(elem_id="search-answer")

    def look(name: str, part: str) -> str:
        return _MATCHES.render(name=name, part=repr(part), matches=session.search(name, part))

    for event in (query.submit, query.change):
        event(look, [attribute, query], answer, api_visibility="private", show_progress="hidden")


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:89]}…"
