"""What a trained Injector for 3,000 values over three attributes takes on disk, and how long it takes to load.

    python benchmarks/footprint.py

Writes benchmarks/results/footprint.json.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from attribune import AttributeModel, Categorical, Classification, Injector, Schema
from attribune.backbone import DEFAULT_BACKBONE, load_backbone

RESULT = Path(__file__).parent / "results" / "footprint.json"
REPEATS = 7


def seconds(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def main() -> None:
    table = {name: [f"{name} {i}" for i in range(1000)] for name in ("user", "product", "place")}
    schema = Schema.fit(table, [Categorical(name) for name in table])
    model = AttributeModel.build(
        DEFAULT_BACKBONE, schema, task=Classification(classes=5), method=Injector(vector_size=64)
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        files = {path.name: path.stat().st_size for path in sorted(Path(folder).iterdir())}
        load_backbone(DEFAULT_BACKBONE)
        backbone, whole = [], []
        for _ in range(REPEATS):
            backbone.append(seconds(lambda: load_backbone(DEFAULT_BACKBONE)))
            whole.append(seconds(lambda: AttributeModel.from_pretrained(folder)))
    result = {
        "values": 3000,
        "vector_size": 64,
        "stored_megabytes": sum(files.values()) / 1e6,
        "files": files,
        "backbone_seconds": statistics.median(backbone),
        "model_seconds": statistics.median(whole),
        "beyond_backbone_seconds": statistics.median(whole) - statistics.median(backbone),
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
