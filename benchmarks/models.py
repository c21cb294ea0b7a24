"""The models whose steps are measured: random weights of a given shape, and the packaged MiniLM with any attributes."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import Any

import peft
import pyarrow as pa
import torch
import torch.distributed as dist
import transformers
from torch import Tensor, nn
from yardstick import AUTOCAST, BARE, bare_inputs, bare_model

from attribune import Adapter, AttributeModel, Categorical, Classification, Injector, MultiLabel, Plain, Schema
from attribune.backbones.loading import DEFAULT_BACKBONE, build_backbone
from attribune.methods import METHODS
from attribune.methods.adapter import AdapterSite
from attribune.methods.base import SiteModule
from attribune.runs.recipe import TrainingRecipe
from attribune.training.optimizer import build_optimizer, clip_gradients, update_rows_alone
from attribune.training.sharding import ShardedTables

BOTTLENECK = 64
CHUNK = 512  # tokens of a window, for longer texts
POLMED = (2, 2, 2)  # distinct values of all but the first attribute in a batch


class ChainSite(SiteModule):
    """Static adapters in a row: what as many attributes cost whose weights are given instead of generated."""

    def __init__(self, adapters: int, *, hidden: int, bottleneck: int) -> None:
        super().__init__()
        settings = Adapter(bottleneck=bottleneck)
        self.adapters = nn.ModuleList(AdapterSite(settings, hidden=hidden) for _ in range(adapters))

    def forward(self, hidden: Tensor, condition: Any) -> Tensor:
        for adapter in self.adapters:
            hidden = adapter(hidden)
        return hidden


def chain(backbone: Any, schema: Schema, *, bottleneck: int, **settings: Any) -> AttributeModel:
    """A frozen backbone with as many adapters at each site as an Injector has: one for the task, one per attribute."""
    method = Adapter(bottleneck=bottleneck)
    model = AttributeModel.build(backbone, schema, method=method, tuning="frozen", **settings)
    model.method.sites = nn.ModuleList(
        ChainSite(len(schema) + 1, hidden=model.head.in_features, bottleneck=bottleneck) for _ in model.method.sites
    )
    return model


def batch_of(rows: int, tokens: int, attribute_ids: Tensor) -> dict[str, Tensor]:
    """Texts without padding."""
    return {
        "input_ids": torch.randint(1000, 20000, (rows, tokens)),
        "attention_mask": torch.ones(rows, tokens, dtype=torch.int64),
        "attribute_ids": attribute_ids,
        "labels": torch.randint(0, 5, (rows,)),
    }


# A backbone of any shape with random weights


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A backbone and a batch.

    Args:
        hidden: H.
        layers: of the backbone.
        heads: of each layer.
        rows: B.
        tokens: T.
        distinct: of each attribute, how many values are in the batch.
        attention_dropout: with any, torch computes attention on a processor without its fused function.
        precisions: in which it is measured by default.
    """

    hidden: int
    layers: int
    heads: int
    rows: int
    tokens: int
    distinct: tuple[int, ...]
    attention_dropout: float = 0.1
    precisions: tuple[str, ...] = ("bf16", "float32")

    def config(self) -> transformers.BertConfig:
        """Of a BERT of this shape."""
        return transformers.BertConfig(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.hidden,
            attention_probs_dropout_prob=self.attention_dropout,
        )

    def table(self) -> dict[str, list[str]]:
        """Values such that the batch has as many distinct ones as asked for."""
        return {f"a{j}": [f"v{i % size}" for i in range(self.rows)] for j, size in enumerate(self.distinct)}

    def schema(self) -> Schema:
        """Of these values."""
        return Schema.fit(self.table(), [Categorical(name) for name in self.table()])


BERT_BASE = Shape(hidden=768, layers=12, heads=12, rows=8, tokens=512, distinct=(8, 8), precisions=("bf16",))
MINILM = Shape(hidden=384, layers=6, heads=12, rows=32, tokens=64, distinct=(32, *POLMED))
SHAPES = {
    "bert-base": BERT_BASE,
    "bert-base, no attention dropout": replace(BERT_BASE, attention_dropout=0.0),
    "minilm": MINILM,
    "minilm, all distinct": replace(MINILM, distinct=(32, 32, 32, 32)),
}
CASES = ("bare", "adapter", "chain", "injector", "peft 8", "peft 16", "full")


def build(case: str, shape: Shape) -> nn.Module:
    """The model of one case, which may be the name of a method or `parallel`, in training mode."""
    torch.manual_seed(0)
    schema, backbone = shape.schema(), build_backbone(shape.config())
    task = Classification(classes=5)
    if case in (BARE, AUTOCAST):
        return bare_model(backbone, task.outputs).train()
    if case == "chain":
        return chain(backbone, schema, task=task, bottleneck=BOTTLENECK).train()
    sizes: dict[str, Any] = {"bottleneck": BOTTLENECK} if case in ("injector", "parallel", "adapter") else {}
    sizes |= {"arrangement": case} if case == "parallel" else {}
    method = METHODS.get("injector" if case == "parallel" else case, Plain)(**sizes)
    tuning = "frozen" if case == "adapter" else None
    model = AttributeModel.build(backbone, schema, task=task, method=method, tuning=tuning)
    if case.startswith("peft"):
        settings = peft.LoraConfig(r=int(case.split()[1]), target_modules=["query", "value"], lora_alpha=16)
        model.backbone = peft.get_peft_model(model.backbone, settings)
    return model.train()


def inputs_of(case: str, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the model of a case reads of a batch."""
    return bare_inputs(given) if case in (BARE, AUTOCAST) else given


def batch(shape: Shape) -> dict[str, Tensor]:
    """One batch without padding."""
    ids = torch.as_tensor(shape.schema().encode(shape.table())[0])
    return batch_of(shape.rows, shape.tokens, ids)


# The packaged MiniLM with attributes of any number and size


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is trained, and on what.

    Args:
        rows: B.
        tokens: T.
        attributes: M.
        labels: values that each row has of an attribute; 0 for attributes with one value per row.
        values: of each attribute.
        bottleneck: A.
    """

    rows: int = 32
    tokens: int = 64
    attributes: int = 2
    labels: int = 0
    values: int = 1000
    bottleneck: int = BOTTLENECK

    def schema(self) -> Schema:
        """Learned from columns with each of the values."""
        values = pa.array(range(self.values)).cast(pa.string())
        names = [f"a{number}" for number in range(self.attributes)]
        if self.labels:
            values = pa.ListArray.from_arrays(pa.array(range(0, self.values + 1, self.labels), pa.int32()), values)
        kinds = [MultiLabel(name, max_per_row=self.labels) if self.labels else Categorical(name) for name in names]
        return Schema.fit(dict.fromkeys(names, values), kinds)

    def indexed(self) -> Schema:
        """The same with the index of its vocabulary, which the first row makes."""
        schema = self.schema()
        schema.encode({attribute.name: [["1"]] if self.labels else ["1"] for attribute in schema})
        return schema


class Training:
    """A model with its optimiser, which makes a step at a time, each with another batch.

    Args:
        point: what is trained.
        case: ``injector`` or ``chain``.
        schema: of the point; made anew unless given.
        rows_alone: whether an update touches the table's rows of the batch alone.
        shared: whether the processes of torchrun have a part of the tables and of each gradient.
    """

    def __init__(
        self,
        point: Point,
        case: str = "injector",
        *,
        schema: Schema | None = None,
        rows_alone: bool = False,
        shared: bool = False,
    ) -> None:
        self.point, self._random = point, random.Random(dist.get_rank() if shared else 0)
        torch.manual_seed(0)
        self.model = _on_minilm(point, case, schema or point.indexed())
        update_rows_alone(self.model, "rows" if rows_alone else "auto")
        self._forward, self._sharded = self.model, None
        if shared:
            self._sharded = ShardedTables(self.model)
            self._forward = nn.parallel.DistributedDataParallel(self.model, broadcast_buffers=False)
        settings = TrainingRecipe(learning_rate=5e-4, backbone_learning_rate=5e-5, weight_decay=0.01)
        self.optimizer = build_optimizer(self.model, settings)

    def step(self) -> float:
        """Seconds of a whole step in bf16, clipping and update among them."""
        given = self._batch()
        started = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self._forward(**given).loss
        loss.backward()
        clip_gradients(self.model.parameters(), 1.0, self._sharded)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - started

    def use_all_state(self) -> None:
        """Write to every page of the optimiser's state: of one that is all zeros the system keeps nothing."""
        for state in self.optimizer.state.values():
            for found in state.values():
                found.add_(0)

    def _batch(self) -> dict[str, Tensor]:
        """Every value of an attribute is a different one."""
        point, width = self.point, max(self.point.labels, 1)
        drawn = [self._random.sample(range(1, point.values + 1), point.rows * width) for _ in range(point.attributes)]
        ids = [torch.tensor(column).view(point.rows, width) for column in drawn]
        return batch_of(point.rows, point.tokens, torch.cat(ids, dim=1))


def _on_minilm(point: Point, case: str, schema: Schema) -> AttributeModel:
    chunk = CHUNK if point.tokens > CHUNK else None
    settings: dict[str, Any] = {"task": Classification(classes=5), "chunk": chunk}
    if case == "chain":
        return chain(DEFAULT_BACKBONE, schema, bottleneck=point.bottleneck, **settings).train()
    method = Injector(bottleneck=point.bottleneck)
    return AttributeModel.build(DEFAULT_BACKBONE, schema, method=method, **settings).train()
