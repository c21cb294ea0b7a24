from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedModel

from attribune.backbones.loading import load_backbone
from attribune.core.device import default_device
from attribune.errors import ConfigError, ModelFolderError
from attribune.methods import Injector, Plain
from attribune.models import folder as saving
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, Schema
from attribune.tasks import Classification

SCHEMA = Schema.fit({"user": ["a", "b", "a"]}, [Categorical("user")])
TASK = Classification(classes=2)


@pytest.fixture
def model(backbone: Path) -> AttributeModel:
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    return AttributeModel.build(
        str(backbone), SCHEMA, task=TASK, method=Injector(bottleneck=8, vector_size=8), tokenizer=tokenizer
    )


def test_the_folder_holds_the_learned_tensors_alone(model: AttributeModel, tmp_path: Path) -> None:
    for earlier in ("blend.json", "blend.safetensors", "linear.json"):
        (tmp_path / earlier).write_text("")
    model.save_pretrained(tmp_path)
    files = {"config.json", "schema.json", "model.safetensors", "README.md", "tokenizer.json", "tokenizer_config.json"}
    assert files | {"checksums.json"} == set(os.listdir(tmp_path))
    assert set(load_file(tmp_path / "model.safetensors")) == set(model.learned_names())
    assert not any(name.startswith("backbone.") for name in model.learned_names())


def test_all_files_can_be_read_by_the_same_people(model: AttributeModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "plain").write_text("")
    expected = (tmp_path / "plain").stat().st_mode
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "model").iterdir()}
    assert modes == dict.fromkeys(modes, expected)


def test_a_place_that_is_no_folder_is_refused(model: AttributeModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="could not be written"):
        model.save_pretrained(tmp_path / "file" / "model")
    with pytest.raises(ModelFolderError, match="is not a folder"):
        AttributeModel.from_pretrained(tmp_path / "nothing")


def test_a_model_tuned_in_full_needs_no_backbone(backbone: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(backbone, tmp_path / "backbone")
    model = AttributeModel.build(str(moved), SCHEMA, task=TASK, method=Plain(), tuning="full").eval()
    model.save_pretrained(tmp_path / "model")
    shutil.rmtree(moved)
    again = AttributeModel.from_pretrained(tmp_path / "model")
    ids = torch.tensor([[2, 5, 6, 3]])
    torch.testing.assert_close(again(ids).logits, model(ids).logits)


@pytest.mark.slow
def test_precision_and_device_by_name(model: AttributeModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    half = AttributeModel.from_pretrained(tmp_path, dtype="bfloat16", device_map="cpu")
    assert (half.backbone.dtype, half.head.weight.dtype) == (torch.bfloat16, torch.float32)
    own = AttributeModel.from_pretrained(tmp_path, dtype="auto", device_map="auto")
    assert (own.backbone.dtype, own.device.type) == (torch.float32, default_device())
    assert AttributeModel.from_pretrained(tmp_path, device_map=torch.device("meta")).head.weight.device.type == "meta"
    for name in ("int8", "half-full"):
        with pytest.raises(ConfigError, match=f"dtype is '{name}': choose float32, bfloat16, float16 or auto"):
            AttributeModel.from_pretrained(tmp_path, dtype=name)
    with pytest.raises(ConfigError, match="device_map is 'balanced': give auto or one device"):
        AttributeModel.from_pretrained(tmp_path, device_map="balanced")


def test_a_failed_save_leaves_the_earlier_one(
    model: AttributeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def fill(_: Any, path: str, **__: Any) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(saving, "save_file", fill)
    with pytest.raises(ModelFolderError, match=r"could not be written .*No space left.* still whole"):
        model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_backbone_built_in_memory_has_to_be_given(
    tiny_backbone: Callable[..., PreTrainedModel], backbone: Path, tmp_path: Path
) -> None:
    made = tiny_backbone("bert")
    made.config._name_or_path = ""
    AttributeModel.build(made, SCHEMA, task=TASK, method=Plain(), tuning="frozen").save_pretrained(tmp_path)
    with pytest.raises(ModelFolderError, match="does not say which backbone"):
        AttributeModel.from_pretrained(tmp_path)
    AttributeModel.from_pretrained(tmp_path, backbone=str(backbone))


def change_tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def test_one_changed_weight_of_the_backbone_is_noticed(model: AttributeModel, backbone: Path, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model")
    other = shutil.copytree(backbone, tmp_path / "other")
    name = "encoder.layer.1.output.dense.weight"
    change_tensors(
        other / "model.safetensors",
        lambda tensors: next(x for key, x in tensors.items() if key.endswith(name)).view(-1)[3].add_(0.01),
    )
    load_backbone(str(other))
    with pytest.raises(ModelFolderError, match="was trained on other weights"):
        AttributeModel.from_pretrained(tmp_path / "model", backbone=str(other))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("head.bias"), r"1 differ, such as head\.bias"),
        (lambda tensors: tensors.update({"tail.bias": torch.zeros(2)}), r"1 differ, such as tail\.bias"),
        (lambda tensors: tensors.update({"head.bias": torch.zeros(3)}), r"head\.bias"),
    ],
)
def test_other_tensors_than_the_configuration_lists(
    model: AttributeModel, tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], object], message: str
) -> None:
    model.save_pretrained(tmp_path)
    change_tensors(tmp_path / "model.safetensors", change)
    with pytest.raises(ModelFolderError, match=r"model\.safetensors differs from what was saved"):
        AttributeModel.from_pretrained(tmp_path)
    with pytest.raises(ModelFolderError, match=message):
        AttributeModel.from_pretrained(tmp_path, verify=False)


def test_tables_are_mapped_and_can_be_trained_and_saved_again(model: AttributeModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    loaded = AttributeModel.from_pretrained(tmp_path)
    names = loaded.values.tables()
    assert names
    with torch.no_grad():
        for name in names:
            assert torch.equal(loaded.get_parameter(name), model.get_parameter(name))
            assert loaded.get_parameter(name).requires_grad
            loaded.get_parameter(name).add_(1)
    assert (tmp_path / "model.safetensors").read_bytes() == before, "the file is not written to"
    loaded.save_pretrained(tmp_path)
    again = AttributeModel.from_pretrained(tmp_path)
    assert all(torch.equal(again.get_parameter(name), model.get_parameter(name) + 1) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"method": {"name": "sorting"}}, {"method": None}, {"task": {"kind": "sorting"}}, {"tuning": "odd"}]
)
def test_a_configuration_changed_by_hand(model: AttributeModel, tmp_path: Path, change: dict[str, Any]) -> None:
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelFolderError, match=r"config\.json differs from what was saved"):
        AttributeModel.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"(?i)method|task|tuning"):
        AttributeModel.from_pretrained(tmp_path, verify=False)
