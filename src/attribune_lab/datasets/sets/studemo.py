"""StudEmo: how positive and how intense single annotators find reviews."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, categorical
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv

__all__ = ["STUDEMO", "STUDEMO_AROUSAL"]


def _read(label: str, scale: range, files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    rows = read_csv(files["texts"], role="texts", log=log, needs=("text_id", "text"))
    texts = {row["text_id"].strip(): row["text"].strip() for _, row in rows}
    needs = ("text_id", "annotator_id", label)
    levels = tuple(map(str, scale))
    for place, row in read_csv(files["judgements"], role="judgements", log=log, needs=needs):
        level = row[label].strip().removesuffix(".0")
        text = texts.get(row["text_id"].strip())
        if text is None:
            log.broken(place, "there is no text of this text_id", GET_AGAIN, found=repr(row["text_id"][:30]))
        elif level not in levels:
            reason = f"the {label} is not a whole number from {levels[0]} to {levels[-1]}"
            log.broken(place, reason, GET_AGAIN, found=repr(level[:30]))
        elif not text:
            log.leave_out("no text")
        else:
            yield None, {"text": text, label: level, "annotator": row["annotator_id"].strip().removesuffix(".0")}


def _card(name: str, label: str, scale: range) -> Card:
    return Card(
        name=name,
        title=f"StudEmo, {label}",
        source="Ngo et al. 2022, Wrocław University of Science and Technology",
        obtain="Get text_data.csv and annotation_data.csv of StudEmo.",
        revision=NOT_STATED,
        licence=NOT_STATED,
        terms="Reviews in Polish, here as translated by a machine to English; may not be redistributed.",
        citation=(
            "Ngo et al. 2022, StudEmo: A Non-aggregated Review Dataset for Personalized Emotion Recognition, "
            "NLPerspectives"
        ),
        files=(
            SourceFile(
                role="texts",
                names=("text_data.csv", "studemo/text_data.csv"),
                rows=5_182,
                sha256="1edd45a0b43c94a44519d85948310c163a541f4e661736143e9fb31c173369e1",
            ),
            SourceFile(
                role="judgements",
                names=("annotation_data.csv", "studemo/annotation_data.csv"),
                rows=7_463,
                sha256="41ea03cdb09839c1c3f643a02fb3419abbcea71d5b49fefcbe19d663ec52a828",
            ),
        ),
        read=partial(_read, label, scale),
        split=Shuffled(share=0.1, whole_texts=True),
        attributes=categorical("annotator"),
        labels=(label,),
        task={"kind": "rating"},
        classes=len(scale),
        metric="rmse",
        window="head",
        recipe=None,
        preparation="Each judgement of an annotator is a row; those of one text stay in one part.",
    )


STUDEMO = _card("studemo", "valence", range(-3, 4))
STUDEMO_AROUSAL = _card("studemo-arousal", "arousal", range(4))
