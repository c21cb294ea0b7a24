"""Show what each span of layers contributes, and in which layers each attribute acts.

Switch a trained method off in the layers i to j, for every i and j, and score labelled rows: the loss of performance is
what these layers contribute. Then hide each attribute in only these layers. Nothing is trained again. For L layers this
takes L (L + 1) / 2 passes over the rows, and as many for each attribute.

Examples:
  attribune ablate runs/stars test.csv --output layers.html
  attribune ablate runs/stars test.csv --rows 500 --json > layers.json
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, table_of
from attribune.apps.cli.output import open_console, show, show_json


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "ablate", __doc__, run=_run)
    add = parser.add_argument
    add_shared(parser, "run_folder", "labelled_data")
    add("--rows", type=int, metavar="N", help="score only the first N labelled rows")
    add("--output", metavar="FILE.html", help="also write an HTML page with a heatmap")
    add_shared(parser, "--json", "--backbone")
    add_reading(parser, has_rows=False)


def _run(options: argparse.Namespace) -> None:
    from attribune.analysis.ablation import ablate
    from attribune.apps.report.ablation_page import ablation_page, ablation_table
    from attribune.apps.report.page import write_page
    from attribune.data.tables import refuse_input_as_output
    from attribune.metrics.tables import text_cells
    from attribune.runs.stored_scores import scored_tables

    console = open_console()
    if options.output is not None:
        refuse_input_as_output(options.output, scored_tables(options.run_folder, options.data))
    record = ablate(
        options.run_folder,
        table_of(options),
        rows=options.rows,
        backbone=options.backbone,
        tell=console.note,
    )
    console.notes(record["notes"])
    if options.json:
        show_json(record)
    else:
        show(text_cells(ablation_table(record), left=2))
    if options.output is not None:  # at the end: what was computed is shown, even if the page cannot be written
        console.note(f"written to {write_page(options.output, ablation_page(record))}")
