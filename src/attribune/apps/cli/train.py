"""Train a model on a table of texts with attributes.

Train a pretrained language model that reads the attributes of each text, measure what the attributes gain, and save
only what was learned: a few megabytes if the backbone is frozen.

Examples:
  attribune train reviews.csv --output runs/stars
  attribune train reviews.csv --text text --label stars --attributes user product --output runs/stars
  attribune train papers.jsonl --text title abstract --label accepted --multi-label authors areas:; --output runs/p
  attribune train reviews.csv --text text --label stars --attributes user --output runs/u --compare adapter none
  attribune train r.csv --text text --label stars --attributes user --values user=users.csv --compare ids --output r/d
  attribune train quotes.csv --task generation --text quote --attributes critic --backbone DIR --output runs/quotes
  attribune train reviews.csv --text text --label stars --attributes user --method auto --budget 10m --output runs/best
  attribune train --config runs/stars/recipe.yaml --set training.seed=1 --output runs/stars-1
  attribune train reviews.csv --text text --label stars --attributes user --output runs/stars --resume
  zcat reviews.csv.gz | attribune train - --rows 5000 --text text --label stars --attributes user --output runs/few

The run folder holds recipe.yaml, model/, metrics.json, the predictions for the validation and test rows, and log.jsonl.
--set changes any setting of the recipe, such as --set method.vector_size=128 data.split.by=time.
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import SEVERAL, add_verb
from attribune.apps.cli.output import open_console, results_text, show
from attribune.apps.cli.recipe_flags import add_recipe_flags, add_settings, recipe_of


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    after = "; finished work is kept: run the same command with --resume to continue in {output}"
    parser = add_verb(verbs, "train", __doc__, run=_run, after_interrupt=after)
    add = parser.add_argument
    add_recipe_flags(parser)
    add("--output", required=True, metavar="DIR", help="folder of the run")
    add("--budget", metavar="TIME", help="with --method auto: time for its bake-off, such as 90s or 2h (default: 10m)")
    add("--resume", action="store_true", help="resume an interrupted run")
    add = parser.add_argument_group("comparison").add_argument
    add(
        "--compare",
        **SEVERAL,
        metavar="METHOD",
        default=[],
        help="other methods to train and compare; `shuffled`: the same method on shuffled attributes; `ids` or "
        "`descriptions`: with only this part of what --values describes",
    )
    add(
        "--no-baselines",
        dest="baselines",
        action="store_false",
        help="skip the baselines linear, attributes-only and majority",
    )
    networks = parser.add_argument_group("networks and word vectors")
    add_settings(networks)
    networks.add_argument(
        "--word-vectors",
        **SEVERAL,
        metavar="FILE",
        help="GloVe, word2vec or fastText files, for automl and for backbones without pretraining",
    )


def _run(options: argparse.Namespace) -> None:
    from attribune.core.processes import is_main
    from attribune.training.train import train

    console = open_console()
    is_auto = options.method == "auto"
    if is_auto:
        options.method = None
    recipe = recipe_of(options)
    train(
        recipe,
        options.output,
        method="auto" if is_auto else None,
        budget=options.budget,
        compare=options.compare,
        baselines=options.baselines,
        resume=options.resume,
        reporter=console,
    )
    if not is_main():
        return
    show(results_text(options.output))
    console.note(f"the run is in {options.output}")
