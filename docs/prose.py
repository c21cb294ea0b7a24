"""Check the prose of README, pages and help: phrases that no native writer uses, and what to write in their place.

    python docs/prose.py

Code, links and what `docs/tables.py` writes are left out. A phrase goes into `PHRASES` once it was found and mended.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/*/*.md")
PHRASES = {
    r"\b(is|are|was|were) said\b": "name who says it: the output, the card, the error",
    r"\bunless (told otherwise|given|it is given)\b": "by default",
    r"\bfound out\b": "find, learn, estimate",
    r"\bdealt out\b": "split, distribute",
    r"\b(put|puts) together\b": "combine, join",
    r"\bbought\b": "gain, cost",
    r"\bspeaks? of\b": "refers to, is about",
    r"\bat (one's|its) (hand|disposal)\b": "available",
    r"(?<!-)\btuned in full\b": "fine-tuned",
    r"\bpasses over the (rows|data|training)\b": "epochs",
    r"\bin the end\b": "finally, at the end",
    r"\bwhole of the\b": "the whole",
    r"\b(stands?|stood) in (the|a) (folder|file|card|page|table)\b": "is in",
    r"\bgoes on\b": "continues, resumes",
    r"\bas it is there\b": "as published",
    r"\bit comes to\b": "it is about",
    r"\b(\w+) \1\b": "one of the two words",
}
_LEFT_OUT = re.compile(
    r"^```.*?^```$|<!-- (?P<name>[^>]+?) -->.*?<!-- end of (?P=name) -->|`[^`\n]*`|\]\([^)]*\)", re.M | re.S
)


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, phrase and cure of each phrase of a page."""
    prose = _LEFT_OUT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for pattern, cure in PHRASES.items():
        for match in re.finditer(pattern, prose, flags=re.IGNORECASE):
            yield prose[: match.start()].count("\n") + 1, " ".join(match[0].split()), cure


def main() -> int:
    """Print what there is to mend; the exit code is 1 if there is anything."""
    found = 0
    for page in sorted(page for pattern in PAGES for page in ROOT.glob(pattern)):
        for line, phrase, cure in sorted(findings(page.read_text(encoding="utf-8"))):
            print(f"{page.relative_to(ROOT)}:{line}: {phrase!r}: {cure}")
            found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
