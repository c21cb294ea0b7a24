"""What the simple models beside a network cost: the time of predictions, and the size of the folder.

    python benchmarks/blending.py [--rounds 9] [--rows 1 64 256]

MiniLM and an Injector with the film as attribute, a linear model of the words of the film snippets of `make demo`
with weights that are drawn at random, and 100 boosted trees: what is timed does not depend on what was learned.
`Predictor.predict` of texts whose words these models have not counted, with them and without (`blend=False`), takes
turns in one process. `processor` is the time that the process computes, which others on the machine hardly change, and
`clock` that on the clock; `added` is the median over the rounds of their ratio, minus 1. What the simple models compute
is too little for that on a busy machine, so that `simple_models` times them alone, as a share of the prediction without
them. Writes benchmarks/results/blending.json.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from harness import arguments, by_turns, ratio, seconds, snippets, write_result

from attribune import AttributeModel, Categorical, Classification, Predictor, Schema, TextInput, load_tokenizer
from attribune.backbones.loading import DEFAULT_BACKBONE
from attribune.core.progress import quiet_libraries
from attribune.methods import METHODS
from attribune.models.blend import Blend, owners_of_words
from attribune.models.boosting import BoostingModel
from attribune.models.word_features import LinearFeatures

CLASSES = ("fresh", "rotten")
HELD_OUT = 6  # every sixth snippet is predicted
CALLS = 16  # rows of a round, at least
REPEATS = 50
TREES = 100


def blended_model(rows: Sequence[dict[str, str]]) -> AttributeModel:
    """An untrained model, and beside it a linear one and trees of the words and films of rows."""
    texts, films = ([row[name] for row in rows] for name in ("text", "movie_name"))
    schema = Schema.fit({"film": films}, [Categorical("film")])
    torch.manual_seed(0)
    model = AttributeModel.build(
        DEFAULT_BACKBONE,
        schema,
        task=Classification(classes=CLASSES),
        method=METHODS["injector"](),
        tokenizer=load_tokenizer(DEFAULT_BACKBONE),
        text_input=TextInput(("text",)),
    )
    features = LinearFeatures.fit(texts, schema, max_features=100_000)
    ids, labels = schema.encode({"film": films})[0], np.array([CLASSES.index(row["category"]) for row in rows])
    columns = [(text,) for text in texts]
    weight = np.random.default_rng(0).normal(size=(features.width, len(CLASSES))).astype(np.float32)
    model.blend = Blend(
        features=features,
        weight=weight,
        bias=np.zeros(len(CLASSES), dtype=np.float32),
        neural_weight=1.0,
        linear_weight=1.0,
        owners=owners_of_words(features, texts, ids),
        trees_weight=1.0,
        trees=BoostingModel.fit(columns, ids, schema=schema, labels=labels, task=model.task, iterations=TREES),
    )
    return model


def processor_seconds(job: Callable[[], object]) -> float:
    """How long the process computes for a job."""
    started = time.process_time()
    job()
    return time.process_time() - started


def measure(blended: Predictor, rows: Sequence[dict[str, str]], *, size: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of a call with `size` rows, with and without the simple models, by two clocks."""
    alone = Predictor(blended.model, text_input=blended.text_input, precision=blended.precision, blend=False)
    starts = range(0, max(CALLS, size), size)
    cut = [rows[start : start + size] for start in starts]
    asked = [{"text": [row["text"] for row in one], "film": [row["movie_name"] for row in one]} for one in cut]

    def job(predictor: Predictor) -> Callable[[], tuple[float, float]]:
        def run() -> tuple[float, float]:
            clock: list[float] = []
            processor = processor_seconds(
                lambda: clock.append(seconds(lambda: [predictor.predict(one) for one in asked]))
            )
            return processor / len(asked), clock[0] / len(asked)

        return run

    times: dict[str, list[Any]] = by_turns({"with": job(blended), "without": job(alone)}, rounds)  # type: ignore[arg-type]
    found: dict[str, Any] = {"rows": size}
    for number, name in enumerate(("processor", "clock")):
        one = {case: [pair[number] for pair in pairs] for case, pairs in times.items()}
        found[name] = {case: 1e3 * statistics.median(figures) for case, figures in one.items()}
        found[name]["added"] = ratio(one["with"], one["without"]) - 1
    found["simple_models"] = simple_models(blended, asked)
    found["simple_models"]["share"] = found["simple_models"]["milliseconds"] / found["processor"]["without"]
    return found


def simple_models(blended: Predictor, asked: Sequence[dict[str, list[str]]]) -> dict[str, float]:
    """Milliseconds for which the process computes the simple models of a call, without the network."""
    calls = [(blended.encode_rows(one), np.zeros((len(one["text"]), len(CLASSES)))) for one in asked]
    blend = blended.model.blend

    def job() -> None:
        for rows, scores in calls:
            blend.logits(scores, rows.texts, rows.attribute_ids)

    job()
    times = [processor_seconds(job) / len(calls) for _ in range(REPEATS)]
    return {"milliseconds": 1e3 * statistics.median(times)}


def main() -> None:
    parser = arguments(__doc__, "blending", rounds=9)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64, 256], metavar="N", help="rows of a call")
    options = parser.parse_args()
    quiet_libraries()
    rows = snippets()
    model = blended_model([row for number, row in enumerate(rows) if number % HELD_OUT])
    blended, features = Predictor(model, precision="float32"), model.blend.features
    with TemporaryDirectory() as place:
        model.save_pretrained(place)
        sizes = {file.name: file.stat().st_size for file in Path(place).iterdir() if file.is_file()}
        load = seconds(lambda: Blend.load(Path(place), schema=features.schema, task=model.task))
    own = sum(sizes[name] for name in Blend.files)
    found = {
        "precision": blended.precision,
        "words": len(features.words or ()),
        "values": features.width - len(features.words or ()),
        "bytes": {"with": sum(sizes.values()), "without": sum(sizes.values()) - own},
        "load_milliseconds": 1e3 * load,
        "measured": [measure(blended, rows[::HELD_OUT], size=size, rounds=options.rounds) for size in options.rows],
    }
    write_result(options.output, found)


if __name__ == "__main__":
    main()
