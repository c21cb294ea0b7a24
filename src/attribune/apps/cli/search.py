"""Search for the best learning rate and sizes on validation rows.

Train with settings that Optuna draws, compare them on the validation rows, and write the recipe of
the best. Test rows are never scored.

Examples:
  attribune search reviews.csv --text text --label stars --attributes user --trials 20 --output searches/stars
  attribune search --config runs/stars/recipe.yaml --space space.yaml --trials 50 --output searches/stars
  attribune train --config searches/stars/recipe.yaml --output runs/best

space.yaml names settings of the recipe, each with a list of values or a range:
  training.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}
  method.bottleneck: [16, 64, 256]

After an interruption, run the same command to continue; a larger --trials adds trials.
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_verb
from attribune.apps.cli.output import open_console, show, wrapped_table
from attribune.apps.cli.recipe_flags import add_recipe_flags, recipe_of
from attribune.errors import ConfigError


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    after = "; run the same command again to continue in {output}"
    parser = add_verb(verbs, "search", __doc__, run=_run, after_interrupt=after)
    add = parser.add_argument
    add_recipe_flags(parser)
    add("--space", metavar="FILE", help="YAML file of the search space (default: learning rate and sizes)")
    add("--trials", type=int, default=20, metavar="N", help="total number of trials (default: 20)")
    add("--output", required=True, metavar="DIR", help="folder of the search")


def _run(options: argparse.Namespace) -> None:
    from attribune.core.config import read_yaml
    from attribune.training.search import search
    from attribune.training.study import listed

    console = open_console()
    recipe = recipe_of(options)
    space = None if options.space is None else read_yaml(options.space, what="the space to search")
    result = search(
        recipe, options.output, trials=options.trials, space=space, seed=recipe.training.seed, reporter=console
    )
    if result.best is None:
        raise ConfigError(f"all {len(result.tried)} trials failed, the first with: {result.tried[0].error}")
    lines = [["trial", "score", "values"]]
    for trial in sorted(result.tried, key=lambda trial: (trial.score is None, trial.score)):
        score = "failed" if trial.score is None else f"{trial.score:.4f}"
        lines.append([str(trial.number + 1), score, listed(trial.values)])
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in result.best.metrics.items())
    show(
        f"{wrapped_table(lines)}\n\nbest on the validation rows: {listed(result.best.values)}\n"
        f"it has {metrics}\ntrain it with: attribune train --config {result.folder / 'recipe.yaml'} --output DIR"
    )
