"""The page of the playground, in gradio; nothing in it is loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import gradio as gr
import numpy as np
from starlette.middleware import Middleware

from attribune.apps.playground.drawing import answer_html, map_svg, panel_html
from attribune.apps.playground.guard import PageGuard
from attribune.apps.playground.session import Session, ValueMap, is_listed
from attribune.core.wording import excerpt
from attribune.errors import AttribuneError
from attribune.schema import FittedAttribute

_MAX_CHOICES = 200  # values in a list to pick from; others are typed
_MAX_CHOICE = 90  # characters of a text in a list
_ROWS = "training rows (log10)"
CSS = """
.attribune-answer { overflow-x: auto; overflow-wrap: anywhere; }
.attribune-answer table { border-collapse: collapse; border: 0 !important; margin: .5rem 0;
  font-variant-numeric: tabular-nums; }
.attribune-answer tbody, .attribune-answer tr { border: 0 !important; }
.attribune-answer th, .attribune-answer td { padding: .35rem .6rem; text-align: right; vertical-align: bottom;
  border: 0; border-bottom: 1px solid var(--border-color-primary); }
.attribune-answer tr:first-child th { overflow-wrap: break-word; min-width: 5rem; max-width: 14rem; }
.attribune-answer tr > :first-child { text-align: left; position: sticky; left: 0; min-width: 0; white-space: nowrap;
  background: var(--background-fill-primary); }
.attribune-answer .bar { display: block; height: .4rem; background: #1864ab; border-radius: .2rem; min-width: 1px; }
.attribune-answer .track { display: block; width: 4rem; margin-left: auto; background: var(--border-color-primary);
  border-radius: .2rem; }
.attribune-answer .prediction { font-weight: 600; }
button[role=tab][aria-selected=true] { color: var(--link-text-color) !important; }
.attribune-map { overflow-x: auto; }
.attribune-map svg { width: 100%; min-width: 640px; max-width: 960px; height: auto; display: block; }
.attribune-map text { fill: var(--body-text-color); font-size: 13px; paint-order: stroke;
  stroke: var(--background-fill-primary); stroke-width: 3px; }
.attribune-map circle { stroke: var(--body-text-color-subdued); stroke-width: .75; }
.attribune-map circle:hover { stroke: var(--body-text-color); stroke-width: 2; }
"""


def build_page(session: Session, *, title: str) -> gr.Blocks:
    """Build the page of a session."""
    page = gr.Blocks(title=title, analytics_enabled=False)
    with page:
        gr.Markdown(f"# {html.escape(title)}")
        for note in session.notes:
            gr.Markdown(html.escape(note))
        with gr.Tab("A text"):
            text, pickers = _text_tab(session, page)
        names = [attribute.name for attribute in session.attributes if is_listed(attribute)]
        if names:
            with gr.Tab("Two values"):
                _two_values(session, names, text, pickers)
            with gr.Tab("A panel"):
                _panel(session, names, text, pickers)
            with gr.Tab("Map of the values"):
                _map(session, names, page)
    return page


def launch(session: Session, *, title: str, port: int) -> tuple[gr.Blocks, str]:
    """Serve the page to this machine alone, and return it with its URL; port 0 takes a free one.

    Raises:
        OSError: for a port that is taken.
    """
    page = build_page(session, title=title)
    _, address, _ = page.launch(
        server_name="127.0.0.1",
        server_port=port or None,
        quiet=True,
        prevent_thread_lock=True,
        share=False,
        app_kwargs={"middleware": [Middleware(PageGuard)]},
        theme=_theme(),
        css=CSS,
        footer_links=[],
    )
    return page, address


def _theme() -> gr.themes.Base:
    """Return a theme whose texts and buttons have enough contrast, in light and in dark."""
    theme = gr.themes.Default(
        primary_hue="blue", font=("system-ui", "sans-serif"), font_mono=("ui-monospace", "monospace")
    )
    colours = {
        "button_primary_background_fill": "*primary_700",
        "button_primary_background_fill_hover": "*primary_800",
        "button_primary_background_fill_dark": "*primary_700",
        "button_primary_background_fill_hover_dark": "*primary_600",
        "block_info_text_color": "*neutral_600",
        "block_info_text_color_dark": "*neutral_300",
        "link_text_color": "*primary_700",
        "link_text_color_dark": "*primary_300",
    }
    return theme.set(**colours)


def _text_tab(session: Session, page: gr.Blocks) -> tuple[gr.Textbox, list[Any]]:
    """Build the first tab, and return the box of the text and those of a second text and the values."""
    gr.Markdown("What does the model say of a text? Pick or write one, choose the values it is read with, and predict.")
    examples = session.examples()
    if examples:
        choices = [(excerpt(one.text, _MAX_CHOICE), index) for index, one in enumerate(examples)]
        example = gr.Dropdown(choices=choices, value=0, label="A training row", elem_id="training-row")
        label = gr.HTML(elem_id="label")
    text = gr.Textbox(label="Text", lines=4, elem_id="text")
    pair = [gr.Textbox(label="Second text", lines=4, elem_id="second-text")] if session.reads_pairs else []
    with gr.Row():
        inputs = [*pair, *(_picker(attribute) for attribute in session.attributes)]
    button = gr.Button("Predict", variant="primary", elem_id="predict")
    answer = gr.HTML(elem_id="answer")
    ask = _with_alerts(session, _ask)
    button.click(ask, [text, *inputs], answer, api_name="predict")

    def fill(index: int) -> list[Any]:
        row = examples[index]
        values = [_picked(attribute, row.values[attribute.name]) for attribute in session.attributes]
        given = [row.text, *([row.second] if session.reads_pairs else []), *values]
        return [*given, f"<p>Its label: <b>{html.escape(row.label)}</b></p>", ask(*given)]

    if examples:
        for event in (example.input, page.load):
            event(fill, example, [text, *inputs, label, answer], api_visibility="private")
    return text, inputs


def _picked(attribute: FittedAttribute, values: list[str]) -> Any:
    """Return values as the control of an attribute holds them."""
    if attribute.spec.takes_several:
        return values
    return values[0] if values else None if is_listed(attribute) else ""


def _picker(attribute: FittedAttribute) -> Any:
    name, elem_id = attribute.name, f"value-{attribute.name}"
    if not is_listed(attribute):
        return gr.Textbox(label=name, elem_id=elem_id)
    return gr.Dropdown(
        choices=list(attribute.values[:_MAX_CHOICES]),
        value=[] if attribute.spec.takes_several else None,
        multiselect=attribute.spec.takes_several,
        allow_custom_value=True,
        label=name,
        info=f"{len(attribute.values):,} values; any may be typed",
        elem_id=elem_id,
    )


def _ask(session: Session, text: str, *picked: Any) -> str:
    second, assignments = _read(session, picked)
    return answer_html(session.ask(text, assignments, second=second))


def _read(session: Session, picked: Sequence[Any]) -> tuple[str, dict[str, list[str]]]:
    """Return the second text, if there is one, and for each attribute what was picked or typed, unless it is empty."""
    second, *given = picked if session.reads_pairs else ("", *picked)
    values = {
        attribute.name: [str(one) for one in (value if isinstance(value, list) else [value]) if one not in (None, "")]
        for attribute, value in zip(session.attributes, given, strict=True)
    }
    return second, {name: listed for name, listed in values.items() if listed}


def _with_alerts(session: Session, handler: Callable[..., str]) -> Callable[..., str]:
    """Make the handler of a button, which shows an error of the user in place of the answer."""

    def handle(*inputs: Any) -> str:
        try:
            return handler(session, *inputs)
        except AttribuneError as error:
            return f'<p role="alert">{html.escape(str(error))}</p>'

    return handle


def _two_values(session: Session, names: Sequence[str], text: gr.Textbox, pickers: Sequence[Any]) -> None:
    gr.Markdown("What does a value change? The text of the first tab, read with the one and with the other value.")
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
    pair, assignments = _read(session, picked)
    answer = session.compare(text, assignments, attribute, two, second=pair)
    return answer_html(answer) + "".join(_about(session, attribute, value) for value in two)


def _about(session: Session, attribute: str, value: str) -> str:
    rows = session.values.rows(attribute, value)
    known = f" ({rows:,} training rows)" if rows is not None else ""
    try:
        near = ", ".join(f"{name} {cosine:+.2f}" for name, cosine in session.values.neighbours(attribute, value))
    except AttribuneError:
        near = ""
    nearest = f" Nearest vectors, by cosine: {html.escape(near)}." if near else ""
    return f"<p>{html.escape(value)}{known}.{nearest}</p>"


def _panel(session: Session, names: Sequence[str], text: gr.Textbox, pickers: Sequence[Any]) -> None:
    if (reason := session.no_panel) is not None:
        gr.Markdown(html.escape(reason))
        return
    gr.Markdown(
        "What would all the values together say? The text of the first tab is read with each of them: their answers, "
        "who gives another one than most, and whether they differ or the model cannot tell."
    )
    attribute = gr.Dropdown(choices=list(names), value=names[0], label="Attribute", elem_id="panel-attribute")
    button = gr.Button("Ask", variant="primary", elem_id="panel")
    answer = gr.HTML(elem_id="panel-answer")
    button.click(_with_alerts(session, _ask_panel), [text, attribute, *pickers], answer, api_name="panel")


def _ask_panel(session: Session, text: str, attribute: str, *picked: Any) -> str:
    pair, assignments = _read(session, picked)
    answer = session.ask_panel(text, assignments, attribute, second=pair)
    return panel_html(answer, attribute)


def _map(session: Session, names: Sequence[str], page: gr.Blocks) -> None:
    gr.Markdown("Which values has the model learned to treat alike? Those are near each other.")
    value_map = cache(session.values.map)
    colours = session.values.mean_labels
    with gr.Row():
        attribute = gr.Dropdown(choices=list(names), value=names[0], label="Attribute", elem_id="map-attribute")
        colour = gr.Dropdown(choices=[*colours, _ROWS], value=(colours or [_ROWS])[-1], label="Coloured by")
    plot = gr.HTML(elem_id="map")
    caption = gr.Markdown(elem_id="map-caption")

    def draw(name: str, by: str) -> tuple[str, str]:
        shown = value_map(name)
        if shown is None:
            return "", f"This model has no vectors of {name}, or fewer than three values."
        shades = np.log10(np.maximum(shown.rows, 1)) if by == _ROWS else shown.means[by]
        drawing = map_svg(shown.values, shown.positions, shown.rows, shades, by=by)
        return drawing, _map_caption(session, name, shown, by)

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
