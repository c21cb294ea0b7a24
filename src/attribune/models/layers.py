"""Methods as layers for networks of your own: vectors of values, and modules that change states by them.

A model of this library acts on a backbone by hooks. These layers have the same parameters and the same equations, and
you call them: `ValueVectors` turns `attribute_ids` into what the other layers read.

    method = Injector(bottleneck=16, vector_size=32)
    vectors, layer = ValueVectors(schema, method), InjectorLayer(method, hidden=H, attributes=len(schema))
    states = layer(states, vectors(attribute_ids))

Shapes: B rows, T tokens, H hidden size, M attributes, Z_m the size of the vectors of attribute m.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from attribune.backbones.sites import Site
from attribune.errors import ConfigError, DataError
from attribune.methods import Host, Injector, Modulated, Pln, Plora, Tokens
from attribune.methods.attribute_method import AttributeMethod, VectorMethod
from attribune.methods.base import Embedded, Method, SiteModule
from attribune.methods.condition import Condition, Values, check_attribute_ids
from attribune.methods.generators import check_memory
from attribune.methods.injector import InjectorSite
from attribune.methods.pln import NormSite
from attribune.methods.plora import LowRankSite
from attribune.models.value_tables import AttributeVectors
from attribune.schema import Schema

Attributes: TypeAlias = Condition | Sequence[Tensor]
"""The result of `ValueVectors`; or the vectors (B, Z_m) of each attribute, such as those of an encoder of your own."""


class ValueVectors(nn.Module):
    """The vectors of attribute values, looked up for the rows of a batch.

    Initial values, sizes and attribute dropout are those of the method. The vector of id 0 stays zero.

    Args:
        schema: the attributes and their values.
        method: settings of the layers that read the vectors.

    Raises:
        ConfigError: for a schema without attributes, or sizes that do not fit it.
    """

    def __init__(self, schema: Schema, method: Injector | Pln | Plora | Modulated) -> None:
        super().__init__()
        self.schema = schema
        host = Host(hidden=0, outputs=0, slots=schema.layout)
        self.method: AttributeMethod
        if isinstance(method, Injector):
            self.method = VectorMethod(method, host)
        else:
            self.method = AttributeMethod(method, host, sizes=_sizes(method, len(schema)))

    def forward(self, attribute_ids: Tensor) -> Condition:
        """Look up the vectors of a batch.

        Args:
            attribute_ids: (B, slots) integers, as `Schema.encode` returns them.

        Returns:
            What the layers read: each distinct value once, and the rows that have it.

        Raises:
            DataError: for ids of another shape or outside the vocabularies.
        """
        return _condition(self.method, attribute_ids)

    def attribute_vectors(self, attribute: str) -> AttributeVectors:
        """Return the vectors of an attribute's values by value, which can be read, set and loaded from a DataFrame.

        Raises:
            ConfigError: for an attribute that the schema does not have, or whose values have no vectors of their own.
        """
        return _attribute_vectors(self.schema, self.method, attribute)


class _AttributeLayer(nn.Module):
    """A layer around the module of a site, which has the parameters under the names that they have in a model."""

    site: SiteModule

    def __init__(self, *, features: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.features, self.sizes = features, tuple(sizes)

    def change(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor, attributes: Attributes) -> Tensor:
        """Change the output (B, T, features) of a module in the precision of the site's parameters."""
        condition = self._read(attributes, output)
        own = next((p.dtype for p in self.site.parameters()), output.dtype)
        states = output if torch.is_autocast_enabled(output.device.type) else output.to(own)
        return self.site.act(module, inputs, states, condition).to(output.dtype)

    def _read(self, attributes: Attributes, output: Tensor) -> Condition:
        name = type(self).__name__
        condition = attributes if isinstance(attributes, Condition) else _of_rows(attributes, len(output))
        sizes = tuple(values.vectors.shape[-1] for values in condition.values)
        if sizes != self.sizes:
            raise DataError(
                f"{name}: the attributes have vectors of the sizes {_listed(sizes)}, and the layer reads "
                f"{_listed(self.sizes)}: make both with the same method and the same number of attributes"
            )
        if output.dim() != 3 or output.shape[0] != condition.rows or output.shape[2] != self.features:
            raise DataError(
                f"{name}: the states have the shape {tuple(output.shape)}: give (B, T, {self.features}) with B = "
                f"{condition.rows}, the rows of the attributes"
            )
        return condition


class InjectorLayer(_AttributeLayer):
    """A task adapter and an adapter for each attribute, whose down projections come from the values.

    ``h_j = h_{j-1} + f(h_{j-1} W_{z_j} + b_{z_j}) W_up + b_up`` (Amplayo, Yoo and Lee 2022, eq. 1-11). The paper puts
    one after the attention and one after the feed-forward sub-layer, each before the residual addition.

    Args:
        method: its settings; `first_layer` is not read, since the layer acts where you put it.
        hidden: H.
        attributes: M.

    Raises:
        ConfigError: for a hidden size that the method cannot divide, or weights that need more memory than there is.
    """

    site: InjectorSite

    def __init__(self, method: Injector, *, hidden: int, attributes: int) -> None:
        super().__init__(features=hidden, sizes=_sizes(method, attributes))
        if method.weight_injection:
            check_memory(method, hidden=hidden, copies=attributes)
        self.site = InjectorSite(method, 0, hidden=hidden, attributes=attributes)

    def forward(self, hidden: Tensor, attributes: Attributes) -> Tensor:
        """Adapt each row's states to its values: (B, T, H) to (B, T, H).

        Raises:
            DataError: for states or attributes of another shape.
        """
        return self.change(self, (), hidden, attributes)


class PersonalisedNorm(_AttributeLayer):
    """A LayerNorm or RMSNorm whose gain and bias depend on the values: ``LN(x; (1 + L_g e) ⊙ gain, L_b e + bias)``.

    Source: Zhang et al. 2024 (E2LN), eq. 5 and 6. The vectors of `Pln` start at zero, and then this is the norm.

    Args:
        norm: with a gain of shape (H,). It is part of the layer and learns unless you freeze it.
        method: its settings; those of places (`norms`, `bias_terms`, `layers`, `first_layer`) are not read.
        attributes: M.

    Raises:
        ConfigError: for a norm without a gain, or a fusion that needs vectors of another size.
    """

    site: NormSite

    def __init__(self, norm: nn.Module, method: Pln, *, attributes: int) -> None:
        gain = getattr(norm, "weight", None)
        if not isinstance(gain, Tensor) or gain.dim() != 1:
            raise ConfigError(f"PersonalisedNorm: {norm} has no gain of shape (H,): give a LayerNorm or RMSNorm")
        super().__init__(features=len(gain), sizes=_sizes(method, attributes))
        self.norm = norm
        site = Site(layer=0, kind="attention_norm", path="norm", inputs=len(gain), features=len(gain))
        self.site = NormSite(method, site, self.sizes)

    def forward(self, states: Tensor, attributes: Attributes) -> Tensor:
        """Normalise the states (B, T, H) with the gain and bias of each row.

        Raises:
            DataError: for states or attributes of another shape.
        """
        return self.change(self.norm, (states,), self.norm(states), attributes)


class PersonalisedLinear(_AttributeLayer):
    """A linear map with low-rank maps that depend on the values: ``W x + b + (alpha / r) B (A x + sum_j P_j a_j)``.

    Source: Zhang et al. 2024 (PLoRA). With `Modulated`, the values also scale the inner features:
    ``B ((1 + sum_j M_j a_j) ⊙ (A x) + sum_j P_j a_j)`` (after Liu et al. 2022). B and the vectors start at zero, and
    then this is the linear map.

    Args:
        linear: a map with `in_features` and `out_features`, such as `torch.nn.Linear` or one that peft has wrapped. It
            is part of the layer and learns unless you freeze it.
        method: its settings; those of places (`target_modules`, `first_layer`) are not read.
        attributes: M.

    Raises:
        ConfigError: for a module that is no linear map.
    """

    site: LowRankSite

    def __init__(self, linear: nn.Module, method: Plora | Modulated, *, attributes: int) -> None:
        inputs, features = (getattr(linear, name, None) for name in ("in_features", "out_features"))
        if not isinstance(inputs, int) or not isinstance(features, int):
            raise ConfigError(
                f"PersonalisedLinear: {linear} has no in_features and out_features: give a torch.nn.Linear"
            )
        sizes = _sizes(method, attributes)
        super().__init__(features=features, sizes=sizes)
        self.linear = linear
        site = Site(layer=0, kind="q_proj", path="linear", inputs=inputs, features=features)
        self.site = method.site_class(method, site, width=sum(sizes))

    def forward(self, x: Tensor, attributes: Attributes) -> Tensor:
        """Map the states (B, T, in) to (B, T, out), with the term of each row's values.

        Raises:
            DataError: for states or attributes of another shape.
        """
        return self.change(self.linear, (x,), self.linear(x), attributes)


class ControlTokens(nn.Module):
    """Attribute values as learned tokens of a text: ``[CLS] v_1 ... v_n x_1 ...``.

    Source: Amplayo, Yoo and Lee 2022, section 5, the baseline Tokens.

    Args:
        schema: the attributes and their values; n is the number of its slots.
        embeddings: of the text's tokens, of size E. It is part of the layer and learns unless you freeze it.
        method: initial values and attribute dropout.
        after_first: whether the values follow the first token of a text, a special one, or precede it.

    Raises:
        ConfigError: for a schema without attributes.
    """

    def __init__(
        self, schema: Schema, embeddings: nn.Embedding, method: Tokens | None = None, *, after_first: bool = True
    ) -> None:
        super().__init__()
        E = embeddings.embedding_dim
        self.schema, self.embeddings = schema, embeddings
        host = Host(hidden=E, outputs=0, slots=schema.layout, embedding=E, has_start_token=after_first)
        self.method = cast(AttributeMethod, (method or Tokens()).build(host))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, attribute_ids: Tensor) -> Embedded:
        """Embed texts (B, T) with their values.

        Args:
            attention_mask: (B, T), 1 for real tokens; padding may be on either side.
            attribute_ids: (B, slots) integers, as `Schema.encode` returns them.

        Returns:
            The embeddings ``states`` (B, T + n, E), their ``attention_mask`` (B, T + n), which is 0 for missing values,
            and the ``positions`` (B, T) of the text's tokens, whose states ``text_states`` selects.

        Raises:
            DataError: for ids of another shape or outside the vocabularies.
        """
        condition = _condition(self.method, attribute_ids)
        embedded = self.method.embed(input_ids, attention_mask, condition, self.embeddings)
        assert embedded is not None
        return embedded

    def attribute_vectors(self, attribute: str) -> AttributeVectors:
        """Return the embeddings of an attribute's values by value; the errors are those of `ValueVectors`."""
        return _attribute_vectors(self.schema, self.method, attribute)


def _sizes(method: Injector | Pln | Plora | Modulated, attributes: int) -> tuple[int, ...]:
    """Return Z of each attribute."""
    return method.sizes(attributes) if isinstance(method, Pln) else (method.vector_size,) * attributes


def _condition(method: Method, attribute_ids: Tensor) -> Condition:
    check_attribute_ids(attribute_ids, cast(AttributeMethod, method).slots, len(attribute_ids))
    return method.condition(attribute_ids, len(attribute_ids))


def _of_rows(vectors: Sequence[Tensor], rows: int) -> Condition:
    """Return the condition of rows that have one vector for each attribute."""
    wrong = next((one for one in vectors if one.dim() != 2 or len(one) != rows), None)
    if wrong is not None:
        raise DataError(
            f"the vectors of an attribute have the shape {tuple(wrong.shape)}: give (B, Z) for each, with B = {rows}"
        )
    values = [
        Values(
            ids=torch.arange(1, rows + 1, device=one.device),
            membership=torch.eye(rows, dtype=one.dtype, device=one.device),
            vectors=one,
        )
        for one in vectors
    ]
    return Condition(rows=rows, values=tuple(values))


def _attribute_vectors(schema: Schema, method: AttributeMethod, attribute: str) -> AttributeVectors:
    fitted = schema[attribute]
    tables = [table for table, name in method.rows_of_values() if name == attribute]
    if not tables or not fitted.spec.lists_values:
        raise ConfigError(f"the values of {attribute!r} have no vectors of their own: name one whose values are listed")
    return AttributeVectors(fitted, tables)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "none"
