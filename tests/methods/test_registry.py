from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from hosts import make_host

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


@pytest.mark.parametrize("name", ["injektor", "Injector", "", None, 3])
def test_unknown_method(name: Any) -> None:
    with pytest.raises(ConfigError) as error:
        method_from_dict({"name": name})
    found = re.escape(f"unknown method {name!r}")
    assert re.search(rf"{found}(; did you mean '\w+'\? C|: c)hoose one of none, adapter, injector", str(error.value))


def test_a_near_miss_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'adapter'"):
        method_from_dict({"name": "adaptor"})


def test_no_method_at_all() -> None:
    with pytest.raises(ConfigError, match="hoose one of none, adapter, injector"):
        method_from_dict({"bottleneck": 3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
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
    ],
)
def test_unknown_option(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        method_from_dict(settings)


def test_bad_values_are_refused_here_too() -> None:
    with pytest.raises(ConfigError, match="adapter: bottleneck is 0"):
        method_from_dict({"name": "adapter", "bottleneck": 0})


def test_building_the_base_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="MethodConfig"):
        MethodConfig().build(make_host(hidden=3, sites=1, slots=(), outputs=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias_injection": "off"}, "bias_injection is 'off': give true or false"),
        ({"bottleneck": 2.5}, "bottleneck is 2.5: give a whole number"),
        ({"bottleneck": True}, "bottleneck is True: give a whole number"),
        ({"bottleneck": "64"}, "bottleneck is '64'"),
        ({"attribute_dropout": None}, "attribute_dropout is None: give a number"),
        ({"initial_scale": float("nan")}, "initial_scale is nan: give a finite number"),
    ],
)
def test_options_of_a_wrong_type_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Injector(**options)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown method"):
        method_from_dict({"name": ["injector"]})
