"""Small tables and a tiny saved backbone, for tests that run the commands as a user does."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import families
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

__all__ = ["COLUMNS", "reviews", "save_backbone", "write_csv"]

COLUMNS = ("text", "stars", "user", "tags", "price", "look", "taste")
_MOODS = {"good": ["great", "lovely", "fine"], "bad": ["awful", "poor", "dull"]}
_FILLER = ["the", "film", "was", "a", "plot", "and", "cast", "very", "quite", "so"]
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def reviews(rows: int, *, seed: int = 0, users: int = 7) -> list[dict[str, Any]]:
    """Rows with a text, three kinds of attributes, and labels that depend on the words and on the user."""
    chance = random.Random(seed)
    table = []
    for number in range(rows):
        user = chance.randrange(users)
        mood = chance.choice(["good", "bad"])
        words = chance.choices(_FILLER, k=chance.randint(2, 12)) + [chance.choice(_MOODS[mood]), f"n{number % 61}"]
        chance.shuffle(words)
        seen = mood if user % 3 else "bad"
        table.append(
            {
                "text": " ".join(words),
                "stars": seen if chance.random() < 0.9 else chance.choice(["good", "bad"]),
                "user": f"u{user}",
                "tags": ";".join(sorted(chance.sample(["drama", "comedy", "war", "short"], k=chance.randint(0, 3)))),
                "price": chance.choice(["", "3", "4.5", "10", "22"]),
                "look": 4 if mood == "good" else chance.randint(1, 3),
                "taste": chance.randint(1, 4),
            }
        )
    return table


def write_csv(path: Path, rows: list[dict[str, Any]], *, delimiter: str = ",") -> Path:
    """Write the rows with a header; returns the path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def save_backbone(folder: Path, *, model_type: str = "bert", seed: int = 0) -> Path:
    """Save a tiny backbone with a word-level tokenizer; returns the folder."""
    words = [*_SPECIAL, *_FILLER, *(word for group in _MOODS.values() for word in group)]
    words += [f"n{number}" for number in range(61)]
    assert len(words) <= families.VOCABULARY
    core = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", words.index("[CLS]")), ("[SEP]", words.index("[SEP]"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    families.tiny_backbone(model_type, seed=seed).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder
