"""What a trained Injector for 3,000 values over three attributes takes on disk, and how long it takes to load.

    python benchmarks/footprint.py

Writes benchmarks/results/footprint.json.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from harness import arguments, by_turns, seconds, write_result

from attribune import AttributeModel, Categorical, Classification, Injector, Schema
from attribune.backbones.loading import DEFAULT_BACKBONE, load_backbone

VALUES, SIZE = 1000, 64


def main() -> None:
    options = arguments(__doc__, "footprint", rounds=7).parse_args()
    table = {name: [f"{name} {i}" for i in range(VALUES)] for name in ("user", "product", "place")}
    schema = Schema.fit(table, [Categorical(name) for name in table])
    task, method = Classification(classes=5), Injector(vector_size=SIZE)
    model = AttributeModel.build(DEFAULT_BACKBONE, schema, task=task, method=method)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        files = {path.name: path.stat().st_size for path in sorted(Path(folder).iterdir())}
        jobs = {
            "backbone": lambda: seconds(lambda: load_backbone(DEFAULT_BACKBONE)),
            "model": lambda: seconds(lambda: AttributeModel.from_pretrained(folder)),
        }
        took = {name: statistics.median(found) for name, found in by_turns(jobs, options.rounds).items()}
    result = {
        "values": 3 * VALUES,
        "vector_size": SIZE,
        "stored_megabytes": sum(files.values()) / 1e6,
        "files": files,
        "backbone_seconds": took["backbone"],
        "model_seconds": took["model"],
        "beyond_backbone_seconds": took["model"] - took["backbone"],
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()
