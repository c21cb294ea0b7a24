"""The rewards of single texts from a run of the task `preference`, in Python and in the trainers of TRL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from preference_tables import chosen_and_rejected, learned_preference, preference_command, preferences
from trained_runs import TrainedRuns
from transformers import AutoModelForCausalLM, AutoTokenizer

from attribune.errors import ConfigError, DataError
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run

pytestmark = pytest.mark.slow

ROWS = preferences(40, seed=4)
CHOSEN = chosen_and_rejected(preferences(120))


@pytest.fixture
def predictor(trained_runs: TrainedRuns) -> Predictor:
    """Of a run that has learned the words and the judge, without a prompt."""
    return load_run(learned_preference(trained_runs))[1]


@pytest.fixture
def prompted(trained_runs: TrainedRuns) -> Predictor:
    """Of a run that has read a prompt before each text."""
    words = preference_command(trained_runs.table(CHOSEN), Path(), backbone=trained_runs.backbone(), is_chosen=True)
    return load_run(trained_runs.trained([*words, "--prompt", "prompt", "--no-baselines"]))[1]


def column(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_a_reward_is_that_of_the_prediction(predictor: Predictor) -> None:
    predicted, users = predictor.predict(ROWS), column(ROWS, "user")
    for text, reward in (("one", "reward_first"), ("two", "reward_second")):
        found = predictor.reward(column(ROWS, text), user=users)
        assert found.shape == (len(ROWS),)
        assert found == pytest.approx(np.asarray(predicted[reward]), abs=1e-5)
    frame = pd.DataFrame({"one": column(ROWS, "two"), "user": users})
    assert predictor.reward(frame) == pytest.approx(predictor.reward(column(ROWS, "two"), user=users))
    good, bad = (predictor.reward(f"the film was {word}", user="u0") for word in ("great", "awful"))
    assert float(good) > float(bad)
    assert predictor.reward({"one": "the film was great", "user": "u0"}) == pytest.approx(good)
    assert predictor.reward(["the film was great"])[0] != good, "an attribute may be left out"
    assert predictor.reward([], user=[]).shape == (0,)


def test_a_reward_is_that_behind_the_prompt(prompted: Predictor) -> None:
    predicted = prompted.predict(CHOSEN)
    asked = {"user": column(CHOSEN, "user"), "prompt": column(CHOSEN, "prompt")}
    found = prompted.reward(column(CHOSEN, "rejected"), **asked)
    assert found == pytest.approx(np.asarray(predicted["reward_second"]), abs=1e-5)
    others = prompted.reward(column(CHOSEN, "rejected"), **{**asked, "prompt": ""})
    assert np.abs(others - found).max() > 1e-6
    with pytest.raises(DataError, match=r"no text has a prompt \(prompt\), .* give prompt=\.\.\., one for all"):
        prompted.reward(["a film"], user="u0")


def test_other_texts_and_runs_are_refused(predictor: Predictor, trained_runs: TrainedRuns) -> None:
    with pytest.raises(DataError, match="have 'use', which the model does not read; did you mean 'user'"):
        predictor.reward(["a"], use="u0")
    with pytest.raises(DataError, match="user has 2 values for 1 text"):
        predictor.reward(["a"], user=["u0", "u1"])
    other = load_run(trained_runs("injector"))[1]
    with pytest.raises(ConfigError, match="and the task 'classification' scores whole texts: use"):
        other.reward(["a"])
    with pytest.raises(ConfigError, match="the model is a baseline, which has no rewards"):
        load_run(trained_runs("linear"))[1].reward(["a"])


def test_completions_are_scored_as_trl_calls(predictor: Predictor, prompted: Predictor) -> None:
    texts, users = column(ROWS, "one"), column(ROWS, "user")
    given: dict[str, Any] = {"completion_ids": [[1]] * len(ROWS), "trainer_state": None, "log_extra": print, "topic": 1}
    found = predictor.reward_completions(prompts=column(ROWS, "prompt"), completions=texts, user=users, **given)
    assert type(found) is list
    assert {type(reward) for reward in found} == {float}
    assert found == pytest.approx(predictor.reward(texts, user=users).tolist())
    prompts = column(ROWS, "prompt")
    expected = prompted.reward(texts, user=users, prompt=prompts).tolist()
    turns = [[{"role": "user", "content": prompt}] for prompt in prompts]
    answers = [[{"role": "assistant", "content": text}] for text in texts]
    assert prompted.reward_completions(prompts, texts, user=users) == pytest.approx(expected)
    assert prompted.reward_completions(turns, answers, user=users) == pytest.approx(expected)
    with pytest.raises(DataError, match=r"'user'.*where its values are not known, add it with empty cells"):
        predictor.reward_completions(prompts, texts)
    with pytest.raises(DataError, match=r"'user'.* is no message with a text: give"):
        prompted.reward_completions([[{"role": "user"}]], ["a"], user=["u0"])


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")
@pytest.mark.parametrize("name", ["GRPO", "RLOO"])
def test_a_trainer_of_trl_takes_the_rewards(
    name: str, prompted: Predictor, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    trl = pytest.importorskip("trl")
    folder = trained_runs.backbone("llama", is_generative=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    seen: list[dict[str, Any]] = []

    def rewarded(**given: Any) -> list[float]:
        seen.append(given)
        return prompted.reward_completions(**given)

    arguments = getattr(trl, f"{name}Config")(
        str(tmp_path),
        per_device_train_batch_size=4,
        num_generations=2,
        max_completion_length=4,
        max_steps=1,
        learning_rate=1e-2,
        beta=0.0,
        use_cpu=True,
        bf16=False,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        save_strategy="no",
        logging_steps=1,
    )
    trainer = getattr(trl, f"{name}Trainer")(
        AutoModelForCausalLM.from_pretrained(folder),
        reward_funcs=[prompted.reward_completions, rewarded],
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": row["prompt"], "user": row["user"]} for row in CHOSEN]),
        processing_class=tokenizer,
    )
    trainer.train()
    logged = next(line for line in trainer.state.log_history if "rewards/rewarded/mean" in line)
    mean = np.mean(prompted.reward(seen[0]["completions"], user=seen[0]["user"], prompt=seen[0]["prompts"]))
    assert logged["rewards/rewarded/mean"] == pytest.approx(mean, abs=1e-5)
    assert logged["rewards/reward_completions/mean"] == pytest.approx(mean, abs=1e-5)
