"""A model as a graph of operations, of any batch size and length, for programs that know nothing of its layers."""

from __future__ import annotations

import importlib.util
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from attribune.core.door import as_argument
from attribune.core.files import writing_temporarily
from attribune.errors import ConfigError
from attribune.models.model import AttributeModel

ScoreFunction = Callable[[Mapping[str, Tensor]], Tensor]
"""Returns the logits (B, outputs) of a batch."""

_LARGEST = 2**31 - 2**20  # a file of protocol buffers holds 2 GiB, and the graph needs some of it


class _Graph(nn.Module):
    """A model from its tensors to its calibrated logits.

    `ids` (slots,) are fixed for every row, None makes them an input.
    """

    ids: Tensor | None

    def __init__(self, model: AttributeModel, ids: Tensor | None) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("ids", ids)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, attribute_ids: Tensor | None = None) -> Tensor:
        """Logits (B, outputs)."""
        return self.logits(attribute_ids, input_ids=input_ids, attention_mask=attention_mask)

    def logits(self, attribute_ids: Tensor | None, **inputs: Tensor) -> Tensor:
        """Logits (B, outputs) of the backbone's inputs by name."""
        if self.ids is not None:
            attribute_ids = self.ids.expand(inputs["input_ids"].shape[0], -1)
        return self.model.calibrated(self.model(attribute_ids=attribute_ids, **inputs).logits)


class _PairGraph(_Graph):
    """The same of a model that reads pairs of texts and tells them apart."""

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, attribute_ids: Tensor | None = None
    ) -> Tensor:
        """Logits (B, outputs)."""
        return self.logits(
            attribute_ids, input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        )


def make_program(model: AttributeModel, batch: Mapping[str, Tensor], *, ids: Tensor | None) -> ExportedProgram:
    """Trace a model into a graph with the inputs ``input_ids``, ``attention_mask`` and perhaps ``attribute_ids``.

    Where the example has ``token_type_ids``, as that of a model for pairs of texts, they are the third input.

    Args:
        model: in evaluation mode.
        batch: an example of at least two rows and two tokens.
        ids: (slots,), fixed for every row; None makes them an input of a model that reads attributes.

    Raises:
        ConfigError: saying why the model has no such graph.
    """
    _check(model, fixed=ids is not None)
    inputs = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch]
    graph = _PairGraph if "token_type_ids" in batch else _Graph
    shapes: dict[str, Any] = {name: {0: Dim.DYNAMIC, 1: Dim.DYNAMIC} for name in inputs}
    if model.method_config.uses_attributes and ids is None:
        inputs.append("attribute_ids")
        shapes["attribute_ids"] = {0: Dim.DYNAMIC}
    example = tuple(batch[name].cpu() for name in inputs)
    try:
        with _quiet(), torch.no_grad(), model.keeping_plans():
            return torch.export.export(graph(model, ids).eval(), example, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # torch raises whatever the model's code leads to
        raise _no_graph(model, "torch.export", error) from error


def _check(model: AttributeModel, *, fixed: bool) -> None:
    if model.placement.states != "token":
        raise ConfigError(
            f"backbones of type {model.placement.model_types[0]} find the sentences of each batch, whose number a "
            "graph would fix: there is no such export; serve the run itself"
        )
    if model.config.chunk is not None:
        raise ConfigError(
            f"the model cuts its texts into chunks of {model.config.chunk}, whose number a graph would fix: "
            f"train with a window that is not of chunks, or export for values with {as_argument('kind', 'adapter')}"
        )
    if "poly" in model.method_config.name.split("+"):
        cure = (
            f"give the first attribute's value with {as_argument('assignments')}"
            if not fixed
            else "there is no such graph"
        )
        raise ConfigError(f"method 'poly': the layers of peft ask in Python for the values of a batch: {cure}")


def _no_graph(model: AttributeModel, exporter: str, error: Exception) -> ConfigError:
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return ConfigError(
        f"{exporter} finds no graph of method {model.method_config.name!r} over a backbone of type "
        f"{model.config.text_config.model_type!r}: {reason:.300}"
    )


def torch_bytes(program: ExportedProgram, *, metadata: Mapping[str, str]) -> bytes:
    """Write the file of ``torch.export.save``, the metadata among its extra files."""
    buffer = io.BytesIO()
    with _quiet():
        torch.export.save(program, buffer, extra_files=dict(metadata))
    return buffer.getvalue()


def torch_scorer(data: bytes) -> ScoreFunction:
    """Load the bytes of `torch_bytes` to score batches."""
    with _quiet():
        program = torch.export.load(io.BytesIO(data))
        names, run = program.graph_signature.user_inputs, program.module()

    def score(batch: Mapping[str, Tensor]) -> Tensor:
        with torch.no_grad():
            logits: Tensor = run(*(batch[str(name)] for name in names if name in batch))
        return logits

    return score


def onnx_bytes(model: AttributeModel, program: ExportedProgram, *, metadata: Mapping[str, str]) -> bytes:
    """Convert a graph to an ONNX file, with names for its inputs, its output and its dynamic sizes.

    Args:
        model: from which `make_program` made the program.
        metadata: stored in the file.

    Raises:
        ConfigError: for a model that is too large, or an operation that ONNX lacks.
    """
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > _LARGEST:
        raise ConfigError(
            f"the model has {size / 2**30:.1f} GiB, but an ONNX file holds 2: choose {as_argument('kind', 'torch')}"
        )
    try:
        with _quiet(), torch.no_grad():
            onnx_program = torch.onnx.export(program, dynamo=True, verbose=False, output_names=["logits"])
        assert onnx_program is not None
        proto = onnx_program.model_proto
    except Exception as error:  # the exporter raises whatever an operation leads to
        raise _no_graph(model, "torch.onnx.export", error) from error
    _name_sizes(proto.graph)
    for key, value in metadata.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    return bytes(proto.SerializeToString())


def onnx_in_int8(data: bytes) -> bytes:
    """Round the weights of the products in an ONNX file to int8, one scale for each output.

    States are rounded while the graph runs, with one scale for a whole batch (dynamic quantisation). Weights that
    are made from the attributes are no constants of the graph, and stay in float32.

    Args:
        data: of `onnx_bytes`.
    """
    import onnx
    from onnxruntime.quantization import quantize_dynamic

    proto = onnx.load_from_string(data)
    del proto.graph.value_info[:]  # it declares the shapes of weights, some of which the quantiser transposes
    with writing_temporarily("the graph in int8"), _quiet(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(proto, path, op_types_to_quantize=["MatMul"], per_channel=True)
        return path.read_bytes()


def _name_sizes(proto: Any) -> None:
    """Name the dynamic sizes ``batch`` and ``length``, in place of the exporter's numbered symbols."""
    names: dict[str, str] = {}
    for graph_input in proto.input:
        sizes = [size.dim_param for size in graph_input.type.tensor_type.shape.dim]
        names |= {symbol: name for symbol, name in zip(sizes, ("batch", "length"), strict=True) if symbol}
    for tensor in (*proto.input, *proto.output, *proto.value_info):
        for size in tensor.type.tensor_type.shape.dim:
            if size.dim_param in names:
                size.dim_param = names[size.dim_param]


def check_packages() -> None:
    """Raise a ConfigError where a package that ONNX needs is not installed."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"{as_argument('kind', 'onnx')} needs {package}: pip install 'attribune[export]'")


def onnx_scorer(data: bytes) -> ScoreFunction:
    """Load the bytes of `onnx_bytes` in onnxruntime, on the CPU, to score batches."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [graph_input.name for graph_input in session.get_inputs()]

    def score(batch: Mapping[str, Tensor]) -> Tensor:
        return torch.from_numpy(session.run(None, {name: batch[name].numpy() for name in names})[0])

    return score


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings and the log of the exporters; errors are raised all the same."""
    before, handlers = logging.root.manager.disable, logging.root.handlers[:]
    logging.disable(logging.CRITICAL)  # onnxruntime logs to the root, which then gets a handler
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        logging.root.handlers[:] = handlers
