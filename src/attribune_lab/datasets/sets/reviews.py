"""Ratings of reviews, sets beyond the benchmark: a shop (AMAZON), and recipes of Food.com (FOODCOM_REVIEWS)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, categorical
from attribune_lab.datasets.row_log import read_reviews
from attribune_lab.datasets.sets.food import FOOD

__all__ = ["AMAZON", "FOODCOM_REVIEWS"]


def _card(*, lowest: int, columns: Mapping[str, str], **texts: Any) -> Card:
    """Return a set that `read_reviews` reads; all columns but text and rating are its attributes."""
    return Card(
        revision=NOT_STATED,
        licence=NOT_STATED,
        read=partial(read_reviews, lowest=lowest, columns=columns),
        split=Shuffled(share=0.1, whole_texts=True),
        attributes=categorical(*(name for name in columns if name not in ("text", "rating"))),
        labels=("rating",),
        task={"kind": "rating"},
        classes=5,
        metric="accuracy",
        window="head",
        recipe=None,
        **texts,
    )


AMAZON = _card(
    name="amazon-instruments",
    title="Amazon musical instruments, 5-core",
    source="Julian McAuley, UC San Diego: Amazon product data",
    obtain="Get Musical_instruments_reviews.csv, the 5-core reviews as CSV (on Kaggle: eswarchandt).",
    terms="Gathered for research.",
    citation="He and McAuley 2016, Ups and Downs: Modeling the Visual Evolution of Fashion Trends, WWW",
    files=(
        SourceFile(
            role="reviews",
            names=("Musical_instruments_reviews.csv", "amazon_musical_instruments/Musical_instruments_reviews.csv"),
            rows=10_261,
            sha256="0a5726a860e2591a388472cdde58a9e10b05ee792ae49f96aa12c5f2d9750976",
        ),
    ),
    lowest=1,
    columns={"text": "reviewText", "rating": "overall", "user": "reviewerID", "product": "asin"},
    preparation="Reviews without a text are left out.",
)

FOODCOM_REVIEWS = _card(
    name="foodcom-reviews",
    title="Food.com reviews",
    source=FOOD.source,
    obtain=(
        "Get RAW_interactions.csv from the data set 'Food.com Recipes and Interactions' on Kaggle (shuyangli94), or "
        "any part of it with its header, as foodcom_interactions.csv."
    ),
    terms=FOOD.terms,
    citation=FOOD.citation,
    files=(
        SourceFile(
            role="reviews",
            names=(
                "RAW_interactions.csv",
                "foodcom_interactions.csv",
                "interactions_small.csv",
                "dishcovery_interactions_small.csv",
            ),
        ),
    ),
    lowest=0,
    columns={"text": "review", "rating": "rating", "user": "user_id", "recipe": "recipe_id"},
    preparation="Reviews without a rating (0 stands for none) or without a text are left out.",
)
