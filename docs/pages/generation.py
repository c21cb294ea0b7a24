"""The tables of generation.md, made from the result file of benchmarks/generation.py."""

from __future__ import annotations

from collections.abc import Mapping

from pages.cells import between, measured, table


def interval(found: Mapping[str, float], *, scale: float = 1, places: int = 2, value: str = "value") -> str:
    """A figure with its interval."""
    return between(found[value], found["low"], found["high"], scale=scale, places=places)


def quotes() -> list[str]:
    """Perplexity and recognised verdicts of every seed, and what the first one wrote."""
    found = measured("generation")
    seeds = []
    for one in found["seeds"]:
        (pair,) = one["comparisons"]
        warm = interval(one["recognised"]["warm"], scale=100, places=0)
        seeds.append([f"{one['seed']}", interval(pair, value="difference"), warm])
    drawn = [[row["fresh"], row["quote"].replace("|", "/")] for row in found["seeds"][0]["quotes"][:4]]
    return [
        *table(["seed", "perplexity", "recognised, %"], seeds, words=()),
        "",
        "Sampled at the lower temperature, with the first seed:",
        "",
        *table(["verdict", "quote"], drawn, words=range(2)),
    ]


TABLES = {"generation.md": {"quotes": quotes}}
