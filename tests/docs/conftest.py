"""The working folder that the pages speak of."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from families import tiny_config
from preference_tables import chosen_and_rejected, preferences
from similarity_tables import pairs as searched_pairs
from similarity_tables import scores, triplets
from small_runs import reviews, save_backbone, write_csv
from token_tables import questions, tagged_words, write_json_lines

from attribune.backbones.families import PLACEMENTS
from attribune.backbones.loading import DEFAULT_BACKBONE, build_backbone, locate_backbone
from attribune.methods import METHODS
from attribune.schema.kinds import KINDS
from attribune.tasks import TASKS
from attribune_lab.datasets.sets import CARDS


def save_long_backbone(folder: Path) -> None:
    """A tiny backbone that takes texts as long as the default recipe reads them."""
    save_backbone(folder)
    config = tiny_config("bert")
    config.max_position_embeddings = 512
    build_backbone(config).save_pretrained(str(folder))


def judged_tasks(number: int) -> list[dict[str, Any]]:
    """An export of Label Studio, with three annotations of each text, two of which are cancelled."""
    return [
        {
            "id": place,
            "data": {"text": row["text"]},
            "annotations": [
                {
                    "completed_by": judge,
                    "was_cancelled": place < 2 and judge == 0,
                    "result": [
                        {"from_name": "sentiment", "type": "choices", "value": {"choices": [str(row["stars"])]}}
                    ],
                }
                for judge in range(3)
            ],
        }
        for place, row in enumerate(reviews(number))
    ]


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with the tables that the pages speak of, and tiny backbones under the names they use."""
    monkeypatch.chdir(tmp_path)
    chance = random.Random(0)
    rows = [
        {
            "text": row["text"],
            "stars": row["stars"],
            "user": row["user"],
            "product": f"p{number % 9}",
            "tags": chance.choice(["ale", "dark", "ale|dark"]),
            "year": 2000 + chance.randrange(20),
            "score": row["look"],
            "price": 3 + chance.randrange(90) / 10,
            "date": f"2024-{1 + number % 12:02}-{1 + number % 28:02}",
        }
        for number, row in enumerate(reviews(60, users=5))
    ]
    write_csv(tmp_path / "reviews.csv", rows)
    for name, seed in (("test.csv", 1), ("valid.csv", 2)):
        write_csv(tmp_path / name, [{**row, "text": f"{row['text']} {seed}"} for row in rows[:20]])
    write_csv(tmp_path / "new.csv", [{key: row[key] for key in ("text", "user", "product")} for row in rows[:9]])
    beers = [{"review": r["text"], "taste": r["taste"], "aroma": r["look"], "user": r["user"]} for r in reviews(60)]
    write_csv(tmp_path / "beers.csv", beers)
    papers = [
        {
            "title": row["text"],
            "abstract": row["text"][::-1],
            "authors": [row["user"], "smith"],
            "areas": row["tags"],
            "accepted": row["stars"] == "good",
        }
        for row in reviews(60)
    ]
    (tmp_path / "papers.jsonl").write_text("".join(json.dumps(paper) + "\n" for paper in papers), encoding="utf-8")
    write_csv(tmp_path / "votes.csv", preferences(90))
    write_csv(tmp_path / "pairs.csv", chosen_and_rejected(preferences(150)))
    for name, make in {"searches": searched_pairs, "triplets": triplets, "scored": scores}.items():
        write_csv(tmp_path / f"{name}.csv", make(60))
    write_json_lines(tmp_path / "words.jsonl", tagged_words(60))
    (tmp_path / "project.json").write_text(json.dumps(judged_tasks(60)), encoding="utf-8")
    write_json_lines(tmp_path / "questions.jsonl", questions(60, unanswerable=0.2))
    for name in (DEFAULT_BACKBONE, "google-bert/bert-base-uncased"):
        save_long_backbone(tmp_path / name)
    save_backbone(tmp_path / "HuggingFaceTB" / "SmolLM2-135M", model_type="llama", is_generative=True)
    locate_backbone.cache_clear()  # a folder here goes before a package, which an earlier test may have found
    extended: tuple[dict[str, Any], ...] = (METHODS, TASKS, KINDS, CARDS)  # pages add to them
    before, placements = [dict(table) for table in extended], list(PLACEMENTS)
    yield tmp_path
    for table, entries in zip(extended, before, strict=True):
        table.clear()
        table.update(entries)
    PLACEMENTS[:] = placements
    locate_backbone.cache_clear()
    logging.getLogger("attribune").setLevel(logging.NOTSET)  # a page shows the log
