"""The table of promises.md: what became of the attacks."""

from __future__ import annotations

from collections import Counter

from pages.cells import measured, table

FAILURES = ("lost", "wrong", "hung", "traceback")
FAMILIES = {
    "killed before a change of a file, once or twice": ["test_a_killed_verb", "killed_again"],
    "two commands at once": ["test_pairs.py"],
    "disk full from some change of a file": ["test_a_verb_without_room"],
    "file system too small": ["test_a_verb_on_a_small_disk"],
    "too little memory, too few descriptors": ["test_a_verb_that_lacks_something"],
    "values of the wrong type in files that are read": ["test_files_with_values"],
    "flipped bits": ["test_any_flipped_bit", "test_parquet_with_flipped_bits", "test_bits.py"],
    "people with names of any kind forgotten": ["test_forgotten.py"],
    "forgotten people in files of other programs": ["test_value_search.py"],
    "links in a folder": ["test_links.py"],
    "invalid recipes, flags and sizes": [
        "test_recipes",
        "test_sizes",
        "test_a_foreign_configuration",
        "test_priors",
    ],
    "tables with odd types, names and encodings": ["test_mutations.py"],
    "code hidden in a folder": ["test_trust.py"],
    "requests, hosts and slow clients of the service": ["apps/serve/"],
}


def attacks() -> list[str]:
    """Attacks of each family, and what became of them."""
    tests = measured("attacks")["tests"]
    counts: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    for test, found in tests.items():
        family = next(name for name, parts in FAMILIES.items() if any(part in test for part in parts))
        counts[family].update(found)
    rows = [(family, found) for family, found in counts.items() if found.total()]
    rows.append(("all", sum(counts.values(), Counter())))
    cells = [
        [
            name,
            *(f"{number:,}" for number in (found["refused"], found["survived"], sum(found[bad] for bad in FAILURES))),
        ]
        for name, found in rows
    ]
    return table(["attack", "refused", "survived", "failed"], cells)


TABLES = {"promises.md": {"attacks": attacks}}
