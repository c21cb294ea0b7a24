"""Convert tables of judgements; prepare and describe published data sets.

`judgements` turns the export of an annotation tool into one row per judgement, and `distributions` such a table into
one row per text. The others are about published data sets: where to get each, how it is prepared, what it contains.

Examples:
  attribune data judgements export.json --output judgements.csv
  attribune data distributions judgements.csv --text text --label answer --output texts.csv
  attribune data list
  attribune data prepare polmed --source downloads --output data/polmed
  attribune train --config data/polmed/recipe.yaml --method injector --output runs/polmed
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import SEVERAL, add_reading, add_setting, add_shared, add_verb, reading_of
from attribune.apps.cli.output import show


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    actions = add_verb(verbs, "data", __doc__).add_verbs(dest="action", metavar="ACTION")
    _add_judgements(actions)
    _add_distributions(actions)


_JUDGEMENTS = """Turn the export of an annotation tool into a table with a row for each judgement.

Read exports of Label Studio, Argilla and doccano, records with a list of answers and one of judges (such as those of
Learning with Disagreements), or a table with a column for each judge. Write the columns of the text, the judge and the
answer, and say what was left out. Answers that mark parts of a text become words and tags. Of several files, each
belongs to one judge, whose name it has, unless a column tells.

Examples:
  attribune data judgements project.json --output judgements.csv
  attribune data judgements project.json --label sentiment --output judgements.csv
  attribune data judgements wide.csv --judges anna bob cem --output judgements.csv
  attribune data judgements anna.jsonl bob.jsonl --output judgements.csv
"""


def _add_judgements(actions: Any) -> None:
    parser = add_verb(actions, "judgements", _JUDGEMENTS, run=_write_judgements)
    add_shared(parser, "data", nargs="+")
    add = parser.add_argument
    add("--text", **SEVERAL, metavar="COL", help="text column, or several, if the guess is wrong")
    add("--label", metavar="NAME", help="question, or column of the answers, where there are several")
    add("--judge", metavar="COL", help="column of the judges, if it is not found")
    add("--judges", **SEVERAL, default=[], metavar="COL", help="columns that each hold the answers of one judge")
    add("--judge-column", default="judge", metavar="NAME", help="name of the new column of judges (default: judge)")
    add("--label-column", default="label", metavar="NAME", help="name of the new column of answers (default: label)")
    add("--output", required=True, metavar="FILE", help="CSV, TSV, JSONL or Parquet file")
    add_reading(parser)


def _write_judgements(options: argparse.Namespace) -> None:
    from attribune.apps.cli.output import open_console
    from attribune.data.annotation_exports import write_judgements

    console = open_console()
    found = write_judgements(
        options.data,
        options.output,
        text=options.text,
        label=options.label,
        judge=options.judge,
        judges=options.judges,
        judge_column=options.judge_column,
        label_column=options.label_column,
        **reading_of(options).given(),
    )
    console.notes(found.lines())
    console.note(f"go on with: {found.next_command(options.output)}")
    show(options.output)


_DISTRIBUTIONS = """Turn a table of judgements into a table of texts, with the share of each answer.

Read a table with a row for each judgement and write a row for each text. Its label is the share of each answer, such
as {"no": 0.75, "yes": 0.25}, which task.soft_labels learns; the column judgements has the number of judgements. Other
columns are kept if all rows of a text have the same value. With --config, the output is a folder with the tables of the
recipe and a recipe that trains on them.

Examples:
  attribune data distributions judgements.csv --text text --label answer --output texts.csv
  attribune train texts.csv --text text --label answer --method adapter --set task.soft_labels=true --output runs/texts
  attribune data distributions --config data/hs-brexit/recipe.yaml --output data/hs-brexit-texts
"""


def _add_distributions(actions: Any) -> None:
    parser = add_verb(actions, "distributions", _DISTRIBUTIONS, run=_write_distributions)
    add_shared(parser, "data", nargs="?")
    add = parser.add_argument
    add_setting(parser, "data.text")
    add("--text-pair", **SEVERAL, metavar="COL", help="column of a second text")
    add("--label", metavar="COL", help="column of the answers")
    add("--config", metavar="FILE", help="recipe in YAML, instead of a table and its columns")
    add("--output", required=True, metavar="FILE_OR_DIR", help="CSV, TSV, JSONL or Parquet file; a folder for a recipe")
    add_reading(parser)


def _write_distributions(options: argparse.Namespace) -> None:
    from attribune.apps.cli.output import open_console
    from attribune.core.config import read_yaml
    from attribune.errors import ConfigError
    from attribune.runs.distributions import write_distribution_recipe, write_distributions
    from attribune.runs.recipe import DataRecipe

    names = ("data", "text", "text_pair", "label")
    given = {name: getattr(options, name) for name in names if getattr(options, name)}
    given |= reading_of(options).given()
    if options.config is None:
        given = {"train" if name == "data" else name: value for name, value in given.items()}
        notes = write_distributions(DataRecipe.from_dict(given, source="the table of judgements"), options.output)
    elif given:
        raise ConfigError(f"--config names table and columns: leave {', '.join(given)} out")
    else:
        notes = write_distribution_recipe(read_yaml(options.config), options.output)
    console = open_console()
    console.notes(notes)
    show(options.output)
