"""The tables of generation.md, made from the result file of benchmarks/generation.py."""

from __future__ import annotations

from collections.abc import Mapping

from pages.cells import between, measured, table


def shares(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """How many verdicts are recognised, at both temperatures, in per cent."""
    return [interval(found[key], scale=100, places=1) for key in ("warm", "cool")]


def interval(found: Mapping[str, float], *, scale: float = 1, places: int = 2, value: str = "value") -> str:
    """A figure with its interval."""
    return between(found[value], found["low"], found["high"], scale=scale, places=places)


def quotes() -> list[str]:
    """Perplexity and recognised verdicts of every seed, and what the first one wrote."""
    found = measured("generation")
    rows, cool = found["rows"], found["temperatures"]["cool"]
    head = ["seed", "perplexity", "attributes hidden", "difference", "verdict recognised, temperature 1, %"]
    seeds = []
    for one in found["seeds"]:
        given, hidden = one["perplexity"].values()
        (pair,) = one["comparisons"]
        figures = [interval(given), interval(hidden), interval(pair, value="difference")]
        seeds.append([f"{one['seed']}", *figures, *shares(one["recognised"])])
    drawn = [[row["fresh"], row["critic"], row["quote"].replace("|", "/")] for row in found["seeds"][0]["quotes"]]
    return [
        f"The model is trained on {rows['train']:,} quotes and validated on {rows['validation']:,}. The classifier is "
        f"trained on {rows['rest']:,} other quotes,",
        f"and is right about {interval(found['judge'], scale=100, places=1)} % of the real validation quotes.",
        "",
        *table(
            [*head, f"temperature {cool}, %"], [*seeds, ["all", "", "", "", *shares(found["recognised"])]], words=()
        ),
        "",
        "Sampled at the lower temperature, with the first seed:",
        "",
        *table(["verdict", "critic", "quote"], drawn, words=range(3)),
    ]


TABLES = {"generation.md": {"quotes": quotes}}
