"""The page of a playground, in gradio; nothing is loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
import numpy as np
import pandas as pd

from attribune.errors import AttribuneError
from attribune.playground.session import Answer, Session, ValueMap, is_listed, takes_several

__all__ = ["CSS", "build_page", "launch"]

_LISTED = 200  # values in a list to pick from; others are typed
_SHOWN_NUMBERS = 12  # classes in a table, the most probable
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
.attribune-answer .said { font-weight: 600; }
"""


def build_page(session: Session, *, title: str) -> gr.Blocks:
    """The page of a session.

    Args:
        session: that is asked.
        title: of the page.
    """
    page = gr.Blocks(title=title, analytics_enabled=False)
    with page:
        gr.Markdown(f"# {html.escape(title)}")
        for note in session.notes:
            gr.Markdown(html.escape(note))
        with gr.Tab("A text"):
            text, given = _text_and_values(session)
            button = gr.Button("Predict", variant="primary", elem_id="predict")
            answer = gr.HTML(elem_id="answer")
            button.click(_shown(session, _ask), [text, *given], answer, api_name="predict")
        listed = [attribute.name for attribute in session.attributes if is_listed(attribute)]
        if listed:
            with gr.Tab("Two values"):
                _two_values(session, listed, text, given)
            with gr.Tab("Map of the values"):
                _map(session, listed, page)
            with gr.Tab("Search a value"):
                _search(session, listed)
    return page


def launch(session: Session, *, title: str, port: int) -> tuple[gr.Blocks, str]:
    """Serve the page to this machine alone.

    Args:
        session: that is asked.
        title: of the page.
        port: 0 takes a free one.

    Returns:
        The page, and its address.

    Raises:
        OSError: for a port that is taken.
    """
    page = build_page(session, title=title)
    system = ("system-ui", "sans-serif")
    theme = gr.themes.Default(font=system, font_mono=("ui-monospace", "monospace"))
    _, address, _ = page.launch(
        server_name="127.0.0.1",
        server_port=port or None,
        quiet=True,
        prevent_thread_lock=True,
        theme=theme,
        css=CSS,
        footer_links=[],
    )
    return page, address


# A text


def _text_and_values(session: Session) -> tuple[gr.Textbox, list[Any]]:
    examples = session.examples()
    if examples:
        pick = gr.Dropdown(choices=[(_short(one), one) for one in examples], label="A text of the training rows")
    text = gr.Textbox(label="Text", lines=4, elem_id="text", value=examples[0] if examples else "")
    if examples:
        pick.input(lambda chosen: chosen, pick, text, api_visibility="private")
    with gr.Row():
        return text, [_picker(attribute, elem_id=f"value-{attribute.name}") for attribute in session.attributes]


def _picker(attribute: Any, *, elem_id: str, label: str | None = None) -> Any:
    name = label or attribute.name
    if not is_listed(attribute):
        return gr.Textbox(label=name, elem_id=elem_id)
    return gr.Dropdown(
        choices=list(attribute.values[:_LISTED]),
        value=[] if takes_several(attribute) else None,
        multiselect=takes_several(attribute),
        allow_custom_value=True,
        label=name,
        info=f"{len(attribute.values):,} values; any may be typed",
        elem_id=elem_id,
    )


def _ask(session: Session, text: str, *given: Any) -> str:
    return answer_html(session.ask(text, _given(session, given)))


def _given(session: Session, values: Sequence[Any]) -> dict[str, list[str]]:
    """What was picked or typed, by attribute; nothing for what was left empty."""
    found = {}
    for attribute, value in zip(session.attributes, values, strict=True):
        picked = [str(one) for one in (value if isinstance(value, list) else [value]) if one not in (None, "")]
        if picked:
            found[attribute.name] = picked
    return found


def _shown(session: Session, do: Callable[..., str]) -> Callable[..., str]:
    """What a button does; a mistake of the user is said where the answer would be."""

    def shown(*given: Any) -> str:
        try:
            return do(session, *given)
        except AttribuneError as error:
            return f'<p role="alert">{html.escape(str(error))}</p>'

    return shown


def answer_html(answer: Answer) -> str:
    """A table: what is predicted in each case, and the numbers with a bar for each."""
    order = np.argsort(-answer.numbers[0], kind="stable")[:_SHOWN_NUMBERS]
    heads = "".join(f"<th>{html.escape(case)}</th>" for case in answer.cases)
    said = "".join(f"<td class=said>{html.escape(one)}</td>" for one in answer.predictions)
    lines = [f"<tr><th>prediction</th>{said}</tr>"]
    for place in order.tolist():
        cells = "".join(_cell(number, bar=answer.shares) for number in answer.numbers[:, place].tolist())
        lines.append(f"<tr><th>{html.escape(answer.names[place])}</th>{cells}</tr>")
    notes = "".join(f"<p>{html.escape(note)}.</p>" for note in answer.notes)
    left = len(answer.names) - len(order)
    rest = f"<p>{left:,} less probable ones are not shown.</p>" if left else ""
    return f"<div class=attribune-answer><table><tr><th></th>{heads}</tr>{''.join(lines)}</table>{notes}{rest}</div>"


def _cell(number: float, *, bar: bool) -> str:
    if not bar:
        return f"<td>{number:.4g}</td>"
    drawn = f'<span class=track><span class=bar style="width:{100 * number:.1f}%"></span></span>'
    return f"<td>{number:.3f}{drawn}</td>"


# Two values


def _two_values(session: Session, listed: Sequence[str], text: gr.Textbox, given: Sequence[Any]) -> None:
    gr.Markdown("The text of the first tab as if written with the one and with the other value.")
    attribute = gr.Dropdown(choices=list(listed), value=listed[0], label="Attribute", elem_id="two-attribute")
    values = list(session.predictor.schema[listed[0]].values[:_LISTED])
    with gr.Row():
        two = [
            gr.Dropdown(
                choices=values,
                value=values[place] if place < len(values) else None,
                allow_custom_value=True,
                label=f"{word} value",
                elem_id=f"two-{word.lower()}",
            )
            for place, word in enumerate(("First", "Second"))
        ]
    button = gr.Button("Compare", variant="primary", elem_id="compare")
    answer = gr.HTML(elem_id="two-answer")

    def refill(name: str) -> list[Any]:
        found = list(session.predictor.schema[name].values[:_LISTED])
        return [gr.Dropdown(choices=found, value=found[place] if place < len(found) else None) for place in range(2)]

    attribute.change(refill, attribute, two, api_visibility="private")
    button.click(_shown(session, _compare), [text, attribute, *two, *given], answer, api_name="compare")


def _compare(session: Session, text: str, attribute: str, first: Any, second: Any, *given: Any) -> str:
    two = [str(one) for one in (first, second) if one not in (None, "")]
    if len(two) < 2 or two[0] == two[1]:
        return '<p role="alert">pick two different values</p>'
    answer = session.compare(text, _given(session, given), attribute, two)
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


# Map


def _map(session: Session, listed: Sequence[str], page: gr.Blocks) -> None:
    maps: dict[str, ValueMap | None] = {}

    def find(name: str) -> ValueMap | None:
        if name not in maps:
            maps[name] = session.map(name)
        return maps[name]

    colours = session.averaged
    with gr.Row():
        attribute = gr.Dropdown(choices=list(listed), value=listed[0], label="Attribute", elem_id="map-attribute")
        colour = gr.Dropdown(choices=[*colours, _ROWS], value=(colours or [_ROWS])[-1], label="Coloured by")
    plot = gr.ScatterPlot(x="first direction", y="second direction", color="colour", tooltip="all", height=420)
    said = gr.Markdown(elem_id="map-said")

    def draw(name: str, by: str) -> tuple[Any, str]:
        found = find(name)
        if found is None:
            return None, f"This model keeps no vectors of {name}, or fewer than three values."
        shades = np.log10(np.maximum(found.rows, 1)) if by == _ROWS else found.means[by]
        frame = pd.DataFrame(
            {
                "value": found.values,
                "first direction": found.places[:, 0],
                "second direction": found.places[:, 1],
                "training rows": found.rows,
                "colour": np.round(shades, 3),
            }
        )
        return frame, _on_map(session, name, found, by)

    for control in (attribute, colour):
        control.change(draw, [attribute, colour], [plot, said], api_visibility="private")
    page.load(draw, [attribute, colour], [plot, said], api_visibility="private")


_ROWS = "training rows (log10)"


def _on_map(session: Session, name: str, found: ValueMap, by: str) -> str:
    total = len(session.predictor.schema[name].values)
    which = f"the {len(found.values):,} most frequent of {total:,}" if len(found.values) < total else f"{total:,}"
    said = f"The vectors of {which} values; the two directions hold {100 * found.explained:.0f} % of their variance."
    if by == _ROWS:
        return said
    means = found.means[by]
    known = ~np.isnan(means)
    if known.sum() < 3 or not np.std(means[known]):
        return said
    r = [_correlation(found.places[known, axis], means[known]) for axis in (0, 1)]
    return f"{said} Correlation of {by} with the first direction {r[0]:+.2f}, with the second {r[1]:+.2f}."


def _correlation(first: Any, second: Any) -> float:
    return float(np.corrcoef(first, second)[0, 1]) if np.std(first) else 0.0


# Search


def _search(session: Session, listed: Sequence[str]) -> None:
    with gr.Row():
        attribute = gr.Dropdown(choices=list(listed), value=listed[0], label="Attribute", elem_id="search-attribute")
        words = gr.Textbox(label="Part of its name", elem_id="search-words")
    found = gr.HTML(elem_id="search-answer")

    def look(name: str, part: str) -> str:
        rows = session.search(name, part)
        if not rows:
            return f"<p>No value of {html.escape(name)} contains {html.escape(repr(part))}.</p>"
        lines = "".join(f"<tr><th>{html.escape(value)}</th><td>{count:,}</td></tr>" for value, count in rows)
        head = f"<tr><th>{html.escape(name)}</th><th>training rows</th></tr>"
        return f"<div class=attribune-answer><table>{head}{lines}</table></div>"

    for event in (words.submit, words.change):
        event(look, [attribute, words], found, api_visibility="private", show_progress="hidden")


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:89]}…"
