"""Generation of texts with a run, for the rows of a table or for given attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from attribune.core.arguments import checked_arguments
from attribune.core.door import as_argument, as_call
from attribune.core.progress import Reporter
from attribune.data.file_options import Reading
from attribune.data.tables import read_table, table_source_name, with_reading
from attribune.errors import ConfigError, numbered_in_file
from attribune.models.predictor import Quantisation
from attribune.models.writer import Decoding, Writer
from attribune.runs.loading import load_predictor
from attribune.schema import EncodingReport
from attribune.schema.columns import column_batches, missing_column
from attribune.tasks.capabilities import GENERATE, require


@checked_arguments
def generate(
    run: str | Path,
    data: Any = None,
    *,
    prompt: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    decoding: Decoding | None = None,
    backbone: str | Path | None = None,
    quantise: Quantisation | None = None,
    reporter: Reporter | None = None,
    **reading: Unpack[Reading],
) -> Iterator[dict[str, Any]]:
    """Write texts with a run of the task ``generation``.

    Args:
        data: anything `read_table` takes, with the columns of prompt and attributes; without it there is one row.
        attributes: values for every row, which replace the table's.
        backbone: new location of the backbone's weights, if they were moved.
        quantise: ``int8`` computes in int8, on CPUs; see `attribune.models.predictor.quantised`.
        **reading: how files are read, as in `read_table`.

    Yields:
        For each text ``row`` and ``sample``, numbers from 1, ``prompt``, ``attributes`` and ``text``.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    decoding, fixed = decoding or Decoding(), dict(attributes or {})
    data = with_reading(data, reading)
    predictor = load_predictor(run, backbone=backbone, quantise=quantise)
    require(predictor.task, GENERATE, run=run, cure=as_call("predict"))
    writer = Writer.of(predictor)
    report = EncodingReport({})
    for first_row, prompts, values in _rows(writer, data, prompt=prompt, given=fixed):
        with numbered_in_file(
            range(first_row - 1 + len(prompts)), "the input" if data is None else table_source_name(data)
        ):
            texts, counted = writer.write(prompts, values, decoding, first_row=first_row)
        report = report + counted
        for index, (text_prompt, written) in enumerate(zip(prompts, texts, strict=True)):
            own = {name: column[index] for name, column in values.items()}
            for sample, text in enumerate(written, start=1):
                yield {
                    "row": first_row + index,
                    "sample": sample,
                    "prompt": text_prompt,
                    "attributes": own,
                    "text": text,
                }
    for line in report.lines():
        (reporter or Reporter()).note(line)


def _rows(
    writer: Writer, data: Any, *, prompt: str | None, given: Mapping[str, Any]
) -> Iterator[tuple[int, Sequence[str], dict[str, Sequence[Any]]]]:
    """Yield the number of the first row, the prompts and the attributes of each batch."""
    if data is None:
        if prompt is None and writer.text_input.prompt:
            raise ConfigError(
                f"the model reads a prompt ({', '.join(writer.text_input.prompt)}): give it with "
                f"{as_argument('prompt')}, or a table"
            )
        yield 1, [prompt or ""], {name: [value] for name, value in given.items()}
        return
    table = read_table(data)
    asked = writer.text_input.prompt if prompt is None else ()
    names = list(dict.fromkeys([*asked, *(name for name in writer.attributes if name not in given)]))
    for name in names:
        if name not in table.column_names:
            raise missing_column(table.column_names, name, source=table_source_name(data))
    rows = table.select_columns(names or table.column_names[:1])
    for first_row, arrays in column_batches(rows, rows.column_names, batch_size=writer.batch_size):
        columns = {name: array.to_pylist() for name, array in arrays.items()}
        count = len(next(iter(columns.values())))
        prompts = writer.prompts(columns, first_row=first_row) if asked else [prompt or ""] * count
        values = {name: columns[name] for name in writer.attributes if name not in given}
        yield first_row, prompts, values | {name: [value] * count for name, value in given.items()}
