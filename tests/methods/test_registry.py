from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from hosts import make_host
from pydantic import ValidationError

from attribune.backbones.tuning import TUNINGS
from attribune.errors import ConfigError
from attribune.methods import DEFAULT_METHOD, METHODS, Adapter, Injector, MethodConfig, Plain, method_from_dict
from attribune.methods.config import Point

CHANGED: list[MethodConfig] = [
    Plain(),
    Adapter(bottleneck=13, initial_scale=0.5),
    Injector(bottleneck=13, aggregation="pre", phm=False, attribute_dropout=0.0, task_adapter=False),
]


def test_the_table() -> None:
    assert list(METHODS)[:3] == ["none", "adapter", "injector"]
    assert DEFAULT_METHOD in METHODS
    assert (METHODS["none"], METHODS["adapter"], METHODS["injector"]) == (Plain, Adapter, Injector)
    for name, method in METHODS.items():
        assert method.name == name
        assert method.default_tuning in TUNINGS
        assert set(method.points) <= set(get_args(Point))
        assert not method.uses_attributes or method.points
    assert [(kind.default_tuning, kind.uses_attributes) for kind in (Adapter, Injector)] == [
        ("layernorm", False),
        ("frozen", True),
    ]


@pytest.mark.parametrize("config", [*CHANGED, *(method() for method in METHODS.values())], ids=repr)
def test_settings_come_back_from_json(config: MethodConfig) -> None:
    settings = config.to_dict()
    assert method_from_dict(json.loads(json.dumps(settings))) == config
    assert settings == config.to_dict(), "the dictionary given is left as it was"


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_option_is_described(method: type[MethodConfig]) -> None:
    assert method.__doc__ is not None
    for option in method.model_fields:
        assert f"{option}:" in method.__doc__, option


def test_settings_are_keyword_only_and_frozen() -> None:
    with pytest.raises(TypeError):
        Adapter(64)  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        Adapter().bottleneck = 3  # type: ignore[misc]


def test_building_the_base_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="MethodConfig"):
        MethodConfig().build(make_host(hidden=3, sites=1, slots=(), outputs=2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            (
                {"name": name},
                rf"unknown method {re.escape(repr(name))}(; did you mean '\w+'\? C|: c)hoose one of none, ad",
            )
            for name in ("injektor", "Injector", "", None, 3, ["injector"])
        ),
        ({"name": "adaptor"}, "did you mean 'adapter'"),
        ({"bottleneck": 3}, "hoose one of none, adapter, injector"),
        (
            {"name": "adapter", "botleneck": 3},
            "method 'adapter' has no option botleneck; did you mean 'bottleneck'. Its options: first_layer,",
        ),
        (
            {"name": "adapter", "z": 1, "a": 2},
            "method 'adapter' has no option a, z: its options: first_layer, bottleneck,",
        ),
        ({"name": "none", "bottleneck": 3}, "method 'none' has no option bottleneck: its options: none"),
        ({"name": "adapter", "phm": True}, "method 'adapter' has no option phm"),
        ({"name": "adapter", "bottleneck": 0}, "adapter: bottleneck is 0, it must be above 0"),
        ({"name": "adapter", "initial_scale": -1}, "adapter: initial_scale is -1, it must be above 0"),
    ],
)
def test_what_names_no_method_or_no_option_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        method_from_dict(settings)


POSITIVE = ("bottleneck", "vector_size", "initial_scale", "initial_vector", "initial_projection", "initial_weight")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias_injection": "off"}, "bias_injection is 'off': give true or false"),
        ({"bottleneck": 2.5}, "bottleneck is 2.5: give a whole number"),
        ({"bottleneck": True}, "bottleneck is True: give a whole number"),
        ({"bottleneck": "64"}, "bottleneck is '64'"),
        ({"attribute_dropout": None}, "attribute_dropout is None: give a number"),
        ({"initial_scale": float("nan")}, "initial_scale is nan: give a finite number"),
        *(
            ({name: value}, f"injector: {name} is {value}, it must be above 0")
            for name in POSITIVE
            for value in (0, -1)
        ),
        *(
            ({"attribute_dropout": rate}, f"attribute_dropout is {rate}, it must be at least 0 and below 1")
            for rate in (-0.1, 1, 1.0, 2)
        ),
        *(
            ({"aggregation": value}, f"aggregation is {value!r}: choose 'post' or 'pre'")
            for value in ("mean", "", None, "Post")
        ),
        (
            {"bias_injection": False, "weight_injection": False},
            "no attribute is read; turn one on, or use a method that reads no",
        ),
    ],
)
def test_wrong_options_of_the_injector_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Injector(**options)
