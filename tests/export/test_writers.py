"""Models that write, exported for given values: what peft and transformers write with the folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from trained_runs import TrainedRuns, randomised
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from attribune.errors import ConfigError
from attribune.export.export import Exported, export
from attribune.models.auto import load_model
from attribune.models.generator import AttributeGenerator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*lora_bias=True.*has no bias"),
    pytest.mark.filterwarnings("ignore:Position ids are not supported:UserWarning"),  # of peft, and so they are
]

ROWS = [{"ask": f"n{number}", "user": f"u{number % 3}", "text": "the film was great"} for number in range(24)]
SIZES = {
    "prefix": ("method.length=3", "method.vector_size=8"),
    "plora": ("method.rank=2", "method.vector_size=8"),
    "injector": ("method.bottleneck=4", "method.vector_size=8"),
}
Make = Callable[..., Path]


@pytest.fixture
def run_of(trained_runs: TrainedRuns) -> Make:
    """A finished run whose attributes have been given random vectors."""

    def make(method: str, family: str, tuning: str = "frozen") -> Path:
        data, backbone = str(trained_runs.table(ROWS)), str(trained_runs.backbone(family, is_generative=True))
        words = ["train", data, "--validation", data, "--task", "generation", "--text", "text", "--prompt", "ask"]
        words += ["--attributes", "user", "--backbone", backbone, "--method", method, "--output", "", "--epochs", "1"]
        words += ["--max-length", "24", "--tuning", tuning, "--no-baselines"]
        words += ["--set", "training.precision=float32", *SIZES[method]]
        return randomised(trained_runs, trained_runs.trained(words), size=0.2)

    return make


def exported(run: Path, output: Path, **options: Any) -> tuple[AttributeGenerator, Exported]:
    result = export(run, output, assignments={"user": ["u1"]}, **options)
    return load_model(run / "model").eval(), result


def prompts(model: AttributeGenerator, user: str) -> dict[str, torch.Tensor]:
    ids, _ = model.row_encoder().prompts(["n3", "n8"])  # of one length
    attribute_ids, _ = model.schema.encode({"user": [user, user]})
    mask = torch.ones(2, len(ids[0]), dtype=torch.int64)
    return {"input_ids": torch.tensor(ids), "attention_mask": mask, "attribute_ids": torch.from_numpy(attribute_ids)}


GREEDY: dict[str, Any] = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "output_logits": True}


def written(model: Any, **inputs: Any) -> torch.Tensor:
    """The logits of each id that is written, greedily."""
    with torch.no_grad():
        output = model.generate(**inputs, **GREEDY, return_dict_in_generate=True, pad_token_id=0)
    return torch.stack(output.logits)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("method", "family", "kind"),
    [
        pytest.param("prefix", "gpt2", "prompt tuning", marks=pytest.mark.exhaustive),
        ("prefix", "llama", "prompt tuning"),
        ("plora", "gpt2", "LoRA with biases"),
        pytest.param("plora", "llama", "LoRA with biases", marks=pytest.mark.exhaustive),
        ("plora", "t5", "LoRA with biases"),
    ],
)
def test_peft_writes_what_the_run_writes(run_of: Make, tmp_path: Path, method: str, family: str, kind: str) -> None:
    model, result = exported(run_of(method, family), tmp_path / "u1")
    assert result.description == f"{kind} for user=u1, which peft loads"
    modules = json.loads((result.path / "adapter_config.json").read_text()).get("target_modules", [])
    assert modules == sorted(modules)
    auto = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
    backbone = auto.from_pretrained(str(model.config.backbone))
    batch = prompts(model, "u1")
    plain = {name: batch[name] for name in ("input_ids", "attention_mask")}
    untouched = written(backbone, **plain)
    other = PeftModel.from_pretrained(backbone, str(result.path)).eval()
    expected = written(model, **batch)
    torch.testing.assert_close(written(other, **plain), expected, rtol=0, atol=1e-4)
    assert (untouched - expected).abs().max() > 1e-2
    assert (written(model, **prompts(model, "u2")) - expected).abs().max() > 1e-3


def test_the_prompt_embeddings_stand_before_those_of_a_text(run_of: Make, tmp_path: Path) -> None:
    model, result = exported(run_of("prefix", "llama"), tmp_path / "u1")
    vectors = load_file(str(result.path / "adapter_model.safetensors"))["prompt_embeddings"]
    assert vectors.shape == (3, model.config.text_config.hidden_size)
    backbone = AutoModelForCausalLM.from_pretrained(str(model.config.backbone)).eval()
    batch = prompts(model, "u1")
    words = backbone.get_input_embeddings()(batch["input_ids"])
    embeds = torch.cat([vectors.expand(2, -1, -1), words], dim=1)
    found = written(backbone, inputs_embeds=embeds, attention_mask=torch.ones(embeds.shape[:2], dtype=torch.int64))
    torch.testing.assert_close(found, written(model, **batch), rtol=0, atol=1e-4)
    assert "prompt_embeds" in (result.path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("method", "tuning", "kind"), [("injector", "frozen", "adapter"), ("prefix", "full", "prefix")]
)
def test_what_peft_does_not_have_is_a_model_without_attributes(
    run_of: Make, tmp_path: Path, method: str, tuning: str, kind: str
) -> None:
    model, result = exported(run_of(method, "llama", tuning), tmp_path / "u1", check=pd.DataFrame(ROWS))
    assert result.description == f"a model of method {kind!r} without attributes for user=u1"
    assert result.from_table
    other = load_model(result.path).eval()
    assert not other.reads_attributes
    batch = prompts(model, "u1")
    expected = written(model, **batch)
    torch.testing.assert_close(written(other, **batch | {"attribute_ids": None}), expected, rtol=0, atol=1e-4)
    assert (written(model, **prompts(model, "u2")) - expected).abs().max() > 1e-3


def test_a_graph_of_a_model_that_writes_is_refused(run_of: Make, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"writes: choose kind='adapter'"):
        export(run_of("prefix", "llama"), tmp_path / "u1.pt2", kind="torch", assignments={"user": ["u1"]})
    assert not list(tmp_path.iterdir())
