"""``e2ln``: personalised norms, and chunks of a document that attend to each other's summaries (Zhang et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.extra_attention import Extra, attach_extra_attention
from attribune.backbones.placement import Placement
from attribune.backbones.sites import Site
from attribune.errors import ConfigError
from attribune.methods.base import Method, Pool
from attribune.methods.condition import Condition
from attribune.methods.config import MethodConfig, Point
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget, own_tensors
from attribune.methods.pln import NormConfig, NormMethod
from attribune.methods.shapes import AttributeIds, Documents, DropoutDraw, Mask, States

TokenPooling = Literal["lnap", "average", "max", "attention"]
_LATEST = "latest"


class E2ln(NormConfig):
    """Personalised LayerNorm, structured text and pooling by LayerNorm, over chunks of a long document.

    Zhang et al. 2024, equations 1 to 8. The backbone reads each chunk of the document by itself; at the end of every
    layer its tokens are pooled to a summary, and the summaries of all chunks are extra keys and values of the next
    layer's attention. The attributes' vectors start at zero, so that training starts from the model without attributes,
    which ``norms`` and ``bias_terms`` both ``none`` give. The backbone is fine-tuned by default. Chunks are a
    window, such as ``chunks:512x4``; a text in another window is one chunk.

    Args:
        structured_text: whether chunks attend to each other's summaries.
        summary_pooling: how a chunk's tokens are pooled to its summary: ``lnap`` (by LayerNorm, no new parameters),
            ``average``, ``max``, or ``attention`` with learned parameters.
        document_pooling: how the document's tokens are pooled to its vector, with the same choices.
    """

    name: ClassVar[str] = "e2ln"
    points: ClassVar[tuple[Point, ...]] = ("sites", "pool")

    structured_text: bool = True
    summary_pooling: TokenPooling = "lnap"
    document_pooling: TokenPooling = "lnap"

    def model_post_init(self, context: Any) -> None:
        """Set ``uses_attributes``, which depends on the options here."""
        self.__dict__["uses_attributes"] = self.norms != "none" or self.bias_terms != "none"

    def refusal(self, placement: Placement) -> str | None:
        """Return why attention cannot read summaries in a family; None if it can, or need not."""
        refusal = super().refusal(placement)
        causal = "their attention is causal and a token must not read what comes after it"
        reason = causal if placement.is_causal else placement.no_extra_attention
        if refusal is not None or not self.structured_text or reason is None:
            return refusal
        return (
            f"e2ln: chunks cannot read summaries in {placement.family}, because "
            f"{reason}: choose structured_text=false, or another backbone"
        )

    def build(self, host: Host) -> Method:
        """Build personalised norms, and the pooling of summaries and documents."""
        return _E2lnMethod(self, host)


class _E2lnMethod(Method):
    pads_right = True

    def __init__(self, config: E2ln, host: Host) -> None:
        super().__init__()
        placement = host.placement
        assert placement is not None
        if config.structured_text and getattr(getattr(host.backbone, "config", None), "is_decoder", False):
            raise ConfigError("e2ln: the backbone is configured as a causal decoder (is_decoder): turn that off")
        self.personal = NormMethod(config, host) if config.uses_attributes else None
        self.structured_text = config.structured_text
        self.pre_norm, self.shared = placement.pre_norm, placement.shared_layers
        self.layers = host.layers
        self.norms = [site.path for site in host.at("feed_forward_norm")]
        self.keys, self.values = host.at("k_proj"), host.at("v_proj")
        # No layer reads a summary of the last one, unless it runs again.
        pools = (len(self.layers) if self.shared else len(self.layers) - 1) if self.structured_text else 0
        self.summary_pools = nn.ModuleList(_TokenPool(config.summary_pooling, host.hidden) for _ in range(pools))
        self.document_pool = _TokenPool(config.document_pooling, host.hidden)

    def condition(self, attribute_ids: AttributeIds | None, rows: int, draw: DropoutDraw | None = None) -> Condition:
        if self.personal is None:
            return super().condition(attribute_ids, rows, draw)
        return self.personal.condition(attribute_ids, rows, draw)

    def planned(self, attribute_ids: AttributeIds, rows: int) -> Condition | None:
        return None if self.personal is None else self.personal.planned(attribute_ids, rows)

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into the method without attributes, with changed gains and biases of the backbone."""
        if self.personal is None:
            return super().merge(config, condition, target)
        impersonal = {"norms": "none", "bias_terms": "none", "layers": None, "vector_sizes": None}
        backbone = self.personal.merge(config, condition, target).backbone
        return MergedMethod(
            config=E2ln(**config.model_dump() | impersonal),
            tensors=own_tensors(self, without="personal"),
            backbone=backbone,
        )

    def install(self, backbone: nn.Module) -> None:
        """Hook the personalised norms first, since summaries are pooled by these norms."""
        if self.personal is not None:
            self.personal.holder = self.holder
            self.personal.install(backbone)
        if not self.structured_text:
            return
        for number in range(len(self.summary_pools)):
            norm = backbone.get_submodule(self.norms[number])
            if self.pre_norm:
                layer = backbone.get_submodule(self.layers[number])
                layer.register_forward_hook(partial(self._after_layer, number, norm))
            else:
                norm.register_forward_hook(partial(self._after_norm, number))
        for number in range(0 if self.shared else 1, len(self.layers)):
            attention = backbone.get_submodule(self.keys[number].path.rpartition(".")[0])
            attach_extra_attention(backbone, attention, partial(self._extra, number, backbone))

    def _after_norm(self, number: int, _norm: nn.Module, _args: Any, normed: Tensor) -> None:
        """Post-norm families: the output of the layer is that of its last norm."""
        self._summarise(number, normed)

    def _after_layer(self, number: int, norm: nn.Module, _layer: nn.Module, _args: Any, output: Any) -> None:
        """Pre-norm families: the next norm reads the output of the layer."""
        self._summarise(number, norm(output[0] if isinstance(output, tuple) else output))

    def _summarise(self, number: int, normed: Tensor) -> None:
        condition = self.holder.current
        assert condition.token_mask is not None
        # Stored for each layer, since a checkpointed layer reads it again in the backward pass.
        condition.memory[_LATEST if self.shared else number] = self.summary_pools[number](normed, condition.token_mask)

    def _extra(self, number: int, backbone: nn.Module) -> Extra | None:
        """Return the extra keys and values of a layer: the summaries of the layer before, by its own projections."""
        condition = self.holder.current
        summaries = condition.memory.get(_LATEST if self.shared else number - 1)
        if summaries is None:
            return None  # the first run of a shared layer
        assert condition.token_mask is not None
        real = condition.token_mask.bool().any(dim=-1)
        keys, values = _project(backbone, cast(Tensor, summaries), [self.keys[number], self.values[number]])
        return Extra(*(functional.shared_summaries(own, C=condition.chunks) for own in (keys, values, real)))

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        return cast(Tensor, self.document_pool(hidden, attention_mask))


def _project(backbone: nn.Module, summaries: Float[Tensor, "BC H"], sites: Sequence[Site]) -> list[Tensor]:
    """Map the chunks' summaries by projections of the backbone: (BC, features) each."""
    states = summaries.unsqueeze(1)  # one token per row, in the shape that other sites at the projections expect
    projected = {path: backbone.get_submodule(path)(states).squeeze(1) for path in {site.path: None for site in sites}}
    return [site.part_of(projected[site.path]) for site in sites]


class _TokenPool(nn.Module):
    """Pools tokens to one vector."""

    def __init__(self, kind: TokenPooling, hidden: int) -> None:
        super().__init__()
        self.kind = kind
        if kind == "attention":
            self.W_h = nn.Parameter(torch.randn(hidden, hidden) * hidden**-0.5)
            self.b = nn.Parameter(torch.zeros(hidden))
            self.v = nn.Parameter(torch.randn(hidden) * hidden**-0.5)

    def forward(self, normed: States, attention_mask: Mask) -> Documents:
        if self.kind == "lnap":
            return functional.layer_norm_pool(normed, attention_mask)
        if self.kind == "average":
            return functional.mean_tokens(normed, attention_mask)
        if self.kind == "max":
            return functional.max_tokens(normed, attention_mask)
        states = normed.to(self.v.dtype)
        pooled = functional.attention_pool(
            states, attention_mask, states.new_zeros(states.shape[0], 0), self.W_h, self.W_h[:, :0], self.b, self.v
        )
        return pooled.to(normed.dtype)
