"""The model under the stock Trainer: defaults, accumulation, checkpointing, bf16, compilation, two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import families
import numpy as np
import pytest
import torch
import transformers
from datasets import Dataset
from families import VOCABULARY, tiny_backbone

from attribune.methods import Injector
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification

pytestmark = pytest.mark.slow

ROWS = 48
# Steps that are linear in the gradient: Adam would turn rounding differences of tiny gradients into whole steps.
PLAIN = {"optim": "sgd", "max_grad_norm": 0.0, "lr_scheduler_type": "constant"}


def rows() -> Dataset:
    generator = np.random.default_rng(0)
    users = [f"u{i}" for i in generator.integers(0, 6, ROWS)]
    return Dataset.from_dict(
        {
            "user": users,
            "tags": [[f"t{j}" for j in range(int(generator.integers(0, 4)))] for _ in range(ROWS)],
            "input_ids": [generator.integers(5, VOCABULARY, int(generator.integers(2, 12))).tolist() for _ in users],
            # What a user likes decides, so that only a model that reads the attribute can learn it.
            "labels": [int(user[1]) % 2 for user in users],
        }
    )


def schema_and_data() -> tuple[Schema, Dataset]:
    table = rows()
    schema = Schema.fit(table, [Categorical("user"), MultiLabel("tags")])
    ids, _ = schema.encode(table)
    return schema, table.remove_columns(["user", "tags"]).add_column("attribute_ids", ids.tolist())


def build(schema: Schema, **options: Any) -> AttributeModel:
    torch.manual_seed(0)
    method = Injector(bottleneck=8, vector_size=16, attribute_dropout=0.0)
    backbone = tiny_backbone("bert")
    for module in backbone.modules():  # so that runs with other batch sizes can be compared
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return AttributeModel.build(backbone, schema, task=Classification(classes=2), method=method, dropout=0.0, **options)


def collate(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    width = max(len(example["input_ids"]) for example in examples)
    ids = torch.zeros(len(examples), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, example in enumerate(examples):
        ids[i, : len(example["input_ids"])] = torch.tensor(example["input_ids"])
        mask[i, : len(example["input_ids"])] = 1
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "attribute_ids": torch.tensor([example["attribute_ids"] for example in examples]),
        "labels": torch.tensor([example["labels"] for example in examples]),
    }


def train(
    output: Path, *, epochs: float = 12, tuning: str = "frozen", checkpoint: str | None = None, **options: Any
) -> transformers.Trainer:
    schema, data = schema_and_data()
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "dataloader_pin_memory": False}
    arguments = transformers.TrainingArguments(
        output_dir=str(output), num_train_epochs=epochs, learning_rate=3e-3, seed=3, **quiet, **options
    )
    model = build(schema, tuning=tuning)
    trainer = transformers.Trainer(model, arguments, train_dataset=data, eval_dataset=data, data_collator=collate)
    trainer.train(resume_from_checkpoint=checkpoint)
    return trainer


def losses(trainer: transformers.Trainer) -> float:
    return float(trainer.evaluate()["eval_loss"])


def test_default_arguments_learn_what_only_the_attribute_tells(tmp_path: Path) -> None:
    trainer = train(tmp_path)
    assert losses(trainer) < 0.3
    loaded = AttributeModel(trainer.model.config, schema=trainer.model.schema, backbone=tiny_backbone("bert"))
    last = sorted(tmp_path.glob("checkpoint-*"))[-1]
    loaded.load_state_dict(transformers.modeling_utils.load_state_dict(str(last / "model.safetensors")))
    for name, parameter in trainer.model.named_parameters():
        assert torch.equal(dict(loaded.named_parameters())[name], parameter), name


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("epochs", "plain", "other"),
    [
        (
            1,
            {"per_device_train_batch_size": 8, **PLAIN},
            {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, **PLAIN},
        ),
        (2, {}, {"activation_checkpointing": True}),
    ],
    ids=["accumulated steps", "checkpointing"],
)
def test_other_ways_train_to_the_same_weights(
    tmp_path: Path, epochs: int, plain: dict[str, Any], other: dict[str, Any]
) -> None:
    one, two = train(tmp_path / "a", epochs=epochs, **plain), train(tmp_path / "b", epochs=epochs, **other)
    for (name, expected), found in zip(one.model.named_parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.exhaustive
def test_bf16_learns(tmp_path: Path) -> None:
    assert losses(train(tmp_path, bf16=True)) < 0.35


@pytest.mark.exhaustive
def test_the_best_model_is_loaded_and_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    trainer = train(tmp_path, epochs=2, eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True)
    best = trainer.state.best_model_checkpoint
    resumed = train(tmp_path, epochs=3, checkpoint=best)
    assert resumed.state.global_step > int(best.rpartition("-")[2])


_TWO_PROCESSES = """
import json, os, sys
from pathlib import Path
sys.path[:0] = {path!r}
import torch
import test_stock_trainer as script
trainer = script.train(Path({output!r}), epochs=2, per_device_train_batch_size=4,
                       ddp_backend="gloo", save_strategy="no", **script.PLAIN)
if trainer.args.process_index == 0:
    values = {{name: p.detach().double().sum().item() for name, p in trainer.model.named_parameters()}}
    Path({output!r}, "sums.json").write_text(json.dumps([trainer.args.world_size, trainer.state.global_step, values]))
# A process that ends while the other still talks to it aborts in gloo's threads; so may the interpreter's own end.
torch.distributed.barrier()
torch.distributed.destroy_process_group()
os._exit(0)
"""


@pytest.mark.exhaustive
def test_two_processes_train_to_the_weights_of_one(tmp_path: Path) -> None:
    paths = [str(Path(__file__).parent), str(Path(families.__file__).parent)]
    script = tmp_path / "two.py"
    script.write_text(_TWO_PROCESSES.format(path=paths, output=str(tmp_path)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    processes, steps, sums = json.loads((tmp_path / "sums.json").read_text())
    single = train(tmp_path / "one", epochs=2, per_device_train_batch_size=8, **PLAIN)
    assert (processes, steps) == (2, single.state.global_step)
    for name, parameter in single.model.named_parameters():
        assert sums[name] == pytest.approx(parameter.detach().double().sum().item(), rel=1e-4, abs=1e-4), name
