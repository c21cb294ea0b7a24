"""What the guides add to the library works as what is in it: it trains, is saved, comes back, and passes the checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from doc_pages import ROOT, blocks_of, run_block, run_page
from families import VOCABULARY
from trained_runs import TrainedRuns
from transformers import AutoConfig

from attribune import AttributeModel, Injector, Predictor, Recipe, train
from attribune.apps.cli import main
from attribune.backbones.families import placement_for
from attribune.backbones.loading import build_backbone
from attribune.backbones.sites import find_sites
from attribune.errors import ConfigError, DataError
from attribune.methods import method_from_dict
from attribune.schema import Categorical, Schema
from attribune.schema.columns import Cells
from attribune.schema.kinds import KINDS
from attribune.tasks import TASKS, Classification, Task, fit_task, task_from_dict

pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory.*")
DOCS = ROOT / "docs"


def run_python(page: str) -> dict[str, Any]:
    """The variables of a page whose Python blocks alone were run, but for those that train."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of((DOCS / page).read_text(encoding="utf-8")):
        if block.language == "python" and "train(" not in block.code:
            run_block(block, page=page, namespace=namespace)
    return namespace


def model_batch(schema: Schema, rows: int = 6) -> dict[str, torch.Tensor]:
    ids, _ = schema.encode({"user": [f"u{number % 3}" for number in range(rows)]})
    generator = torch.Generator().manual_seed(0)
    mask = (torch.arange(9) < torch.tensor([9, 3, 7, 9, 5, 4])[:rows, None]).long()
    return {
        "input_ids": torch.randint(5, VOCABULARY, (rows, 9), generator=generator) * mask,
        "attention_mask": mask,
        "attribute_ids": torch.as_tensor(ids),
        "labels": torch.tensor([0, 1, 0, 1, 1, 0])[:rows],
    }


def losses_of(model: AttributeModel, batch: dict[str, torch.Tensor], steps: int = 12) -> list[float]:
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
class TestTask:
    def test_it_trains_evaluates_predicts_and_comes_back(self, tables: Path) -> None:
        run_page(DOCS / "adding_a_task.md")
        predictor = Predictor.from_pretrained("runs/count")
        assert type(predictor.task) is TASKS["count"]
        predicted = predictor.predict({"text": ["a great film", "a poor plot"], "user": ["u1", "new"]})["prediction"]
        assert all(float(number) > 0 for number in predicted)
        assert (tables / "counts.csv").is_file()
        assert "majority" in (tables / "runs" / "count" / "metrics.json").read_text()

    def test_it_counts(self, tables: Path) -> None:
        run_python("adding_a_task.md")
        task = fit_task("count", [["3", "", "0", "6"]])
        assert task_from_dict(task.to_dict()) == task
        labels, mask = task.encode_labels([["2", "NA", "5"]])
        assert (labels[mask].tolist(), mask.tolist()) == ([2, 5], [True, False, True])
        loss = task.loss(torch.zeros(2, 1), torch.tensor([2.0, 5.0]))
        expected = torch.poisson_nll_loss(torch.full((2,), 3.0), torch.tensor([2.0, 5.0]), False, False, 0.0, 1)
        torch.testing.assert_close(loss, expected)
        assert task.majority(labels[mask], labels[mask])["mae"].value() == pytest.approx(1.5)
        with pytest.raises(DataError, match=r"the label 2\.5 is no count"):
            fit_task("count", [["2.5", "1"]])

    def test_baselines_refuse_it(self, tables: Path) -> None:
        run_python("adding_a_task.md")
        data = {"train": "reviews.csv", "text": "text", "label": "score", "attributes": [{"name": "user"}]}
        recipe = Recipe.from_dict({"data": data, "task": {"kind": "count"}, "method": {"name": "linear"}})
        with pytest.raises(ConfigError, match="the linear baseline cannot learn the task 'count'"):
            train(recipe, "runs/linear")

    def test_a_task_that_lacks_something_is_told_all_of_it(self, tables: Path) -> None:
        class Half(Task):
            kind = "half"
            outputs = main_metric = 1

        TASKS["half"] = Half
        with pytest.raises(ConfigError, match="has no decode, encode_labels, fit, loss, metrics: "):
            fit_task("half", [[1]])


@pytest.mark.slow
class TestDataSet:
    @pytest.mark.exhaustive
    def test_it_is_known_prepared_and_trained_on(
        self,
        tables: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        run_page(DOCS / "adding_a_data_set.md")
        shown = capsys.readouterr()
        assert re.search(r"^wine-notes +Wine notes +taster, region +2", shown.out, flags=re.MULTILINE)
        assert "left out, no note: 1" in shown.err
        sizes = [
            pq.read_metadata(f"data/wine-notes/{name}.parquet").num_rows for name in ("train", "validation", "test")
        ]
        assert sum(sizes) == 200
        assert main(["describe", "runs/wine"]) == 0
        assert main(["predict", "runs/wine", "data/wine-notes/test.parquet", "--output", "wine.csv"]) == 0
        assert main(["data", "list"]) == 0
        assert re.search(r"^wine-notes .*prepared", capsys.readouterr().out, flags=re.MULTILINE)

    def test_damage_and_cuts_are_refused(self, tables: Path) -> None:
        run_python("adding_a_data_set.md")
        source = Path("downloads/wine_notes.csv")
        whole = source.read_text()
        command = ["data", "prepare", "wine-notes", "--source", "downloads", "--output", "out"]
        source.write_text(whole.replace("80,", "eighty,", 1))
        assert main(command) != 0
        source.write_text("\n".join(whole.splitlines()[:50]))
        assert main(command) != 0
        assert main([*command, "--partial"]) == 0


@pytest.mark.slow
class TestAttributeKind:
    @pytest.mark.exhaustive
    def test_it_trains_and_comes_back(self, tables: Path) -> None:
        run_page(DOCS / "adding_an_attribute_kind.md")
        attribute = Predictor.from_pretrained("runs/period").schema["date"]
        assert (type(attribute.spec), attribute.spec.unit) == (KINDS["period"], "month")
        assert attribute.values[0] == "2024-01"
        assert attribute.size == 13

    def test_it_fits_encodes_saves_and_loads(self, tables: Path) -> None:
        Period = run_python("adding_an_attribute_kind.md")["Period"]
        dates = ["2024-05-17", "2024-05-02", "2023-01-01", "", "2024-06"]
        schema = Schema.fit({"date": dates}, [Period("date", unit="month", min_count=2)])
        assert schema["date"].counts.tolist() == [3, 2]
        schema.save("schema.json")
        loaded = Schema.load("schema.json")
        assert loaded.to_dict() == schema.to_dict()
        assert loaded.encode({"date": dates})[0].tolist() == [[1], [1], [0], [0], [0]]
        assert loaded.unknown({"date": dates})["date"] == [[], [], ["2023-01"], [], ["2024-06"]]
        with pytest.raises(DataError, match=r"column 'date', row 2: 'may' is no date with its month"):
            loaded.encode({"date": ["2024-05", "may"]})
        with pytest.raises(ConfigError, match="unit"):
            Period("date", unit="week")

    def test_one_that_is_not_in_the_table_is_refused(self) -> None:
        class Domain(Categorical):
            kind = "domain"

        with pytest.raises(ConfigError, match=r"'url' is of the kind 'domain', .*add it there"):
            Schema.fit({"url": ["a"]}, [Domain("url")])

    def test_values_that_meet_count_once_in_a_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Upper(KINDS["multi_label"]):  # type: ignore[misc]
            kind = "upper"

            def value_of(self, text: str) -> str | None:
                return None if text == "none" else text.upper()

        monkeypatch.setitem(KINDS, "upper", Upper)
        schema = Schema.fit({"tags": ["a|A|b", "B", "none"]}, [Upper("tags", separator="|")])
        assert schema["tags"].values == ("B", "A")
        assert schema["tags"].counts.tolist() == [1, 2, 1]
        assert schema.encode({"tags": ["a|A|b", "c|b", "none"]})[0].tolist() == [[2, 1], [1, 0], [0, 0]]

    def test_one_may_read_cells_in_its_own_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Steps(KINDS["multi_label"]):  # type: ignore[misc]
            kind = "steps"

            def read(self, column: pa.Array, **options: Any) -> Cells:
                lists = [None if text is None else list(map(str, range(int(text)))) for text in column.to_pylist()]
                return super().read(pa.array(lists), **options)

        monkeypatch.setitem(KINDS, "steps", Steps)
        schema = Schema.fit({"n": ["3", None, "1"]}, [Steps("n")])
        assert schema["n"].values == ("0", "1", "2")
        assert schema.encode({"n": ["2", "4"]})[0].tolist() == [[1, 2, 0], [1, 2, 3]]
        assert schema.unknown({"n": ["2", "4"]})["n"] == [[], ["3"]]

    def test_one_of_numbers_has_bins_and_comes_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Weight(KINDS["numeric"]):  # type: ignore[misc]
            kind = "weight"

            def value_of(self, text: str) -> str | None:
                return text.removesuffix(" kg")

        monkeypatch.setitem(KINDS, "weight", Weight)
        schema = Schema.fit({"of": ["1 kg", "2 kg", "-", "8"]}, [Weight("of", bins=2)])
        assert schema["of"].counts.tolist() == [1, 1, 2]
        loaded = Schema.from_dict(schema.to_dict())
        assert loaded.encode({"of": ["1", "9 kg", "?"]})[0].tolist() == [[1], [2], [0]]


@pytest.mark.slow
class TestBackbone:
    def test_sites_stand_before_the_residual_additions(self, tables: Path) -> None:
        run_python("adding_a_backbone.md")
        config = AutoConfig.for_model("roformer", vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2)
        config.num_attention_heads, config.intermediate_size = 4, 64
        backbone, row = build_backbone(config).eval(), placement_for("roformer")
        sites, seen = find_sites(backbone, row), {}
        assert [(site.layer, site.kind) for site in sites] == [
            (layer, kind) for layer in range(2) for kind in ("attention", "feed_forward")
        ]
        layers = [row.layers.replace("*", str(number)) for number in range(2)]
        inner = (row.attention, row.feed_forward, *row.norms)
        for path in [*layers, *(f"{layer}.{name}" for layer in layers for name in inner)]:
            backbone.get_submodule(path).register_forward_hook(
                lambda _module, args, output, path=path: seen.update({path: (args[0], output)})
            )
        backbone.get_submodule(sites[0].path).register_forward_hook(lambda _m, _a, output: output * 1.5, prepend=True)
        backbone(input_ids=torch.randint(5, VOCABULARY, (3, 7)))
        for layer in layers:
            attention, feed_forward, first, second = (seen[f"{layer}.{name}"] for name in inner)
            assert torch.equal(first[0], seen[layer][0] + attention[1])
            assert torch.equal(second[0], first[1] + feed_forward[1])

    def test_an_injector_learns_on_it_and_comes_back(self, tables: Path) -> None:
        run_python("adding_a_backbone.md")
        config = AutoConfig.for_model("roformer", vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2)
        config.num_attention_heads, config.intermediate_size = 4, 64
        build_backbone(config).save_pretrained("roformer")
        schema = Schema.fit({"user": ["u0", "u1", "u2"]}, [Categorical("user")])
        model = AttributeModel.build(
            "roformer", schema, task=Classification(classes=2), method=Injector(bottleneck=5, vector_size=13)
        )
        batch = model_batch(schema)
        losses = losses_of(model, batch)
        assert losses[-1] < losses[0]
        model.eval().save_pretrained("saved")
        assert torch.equal(AttributeModel.from_pretrained("saved")(**batch).logits, model(**batch).logits)


@pytest.mark.slow
class TestMethod:
    def test_it_passes_the_checks_of_the_battery(self, tables: Path, trained_runs: TrainedRuns) -> None:
        Gate = run_python("adding_a_method.md")["Gate"]
        assert method_from_dict({"name": "gate", "vector_size": 13}) == Gate(vector_size=13)
        with pytest.raises(ConfigError, match="gate: vector_size is 0"):
            Gate(vector_size=0)
        schema = Schema.fit({"user": ["u0", "u1", "u2"]}, [Categorical("user")])
        method = Gate(vector_size=13, attribute_dropout=0.0)
        model = AttributeModel.build(
            str(trained_runs.backbone()), schema, task=Classification(classes=2), method=method
        )
        model.head.requires_grad_(False)
        batch = model_batch(schema)
        start = model.eval()(**batch).logits
        hidden = {**batch, "attribute_ids": torch.zeros_like(batch["attribute_ids"])}
        torch.testing.assert_close(model(**hidden).logits, start, rtol=1e-5, atol=1e-6)  # vectors start at zero
        losses = losses_of(model.train(), batch)
        assert losses[-1] < losses[0]
        assert all(parameter.grad is not None for parameter in model.method.parameters())
        logits = model.eval()(**batch).logits
        unknown = model(**hidden).logits
        assert torch.isfinite(unknown).all()
        assert not torch.equal(unknown, logits)
        alone = model(input_ids=batch["input_ids"][1:2, :3], attribute_ids=batch["attribute_ids"][1:2]).logits
        torch.testing.assert_close(alone[0], logits[1], rtol=0, atol=1e-5)
        model.save_pretrained("saved")
        assert torch.equal(AttributeModel.from_pretrained("saved")(**batch).logits, logits)


def test_the_tour_names_files_and_functions_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tour = text[text.index("## A tour") :]
    files = set(re.findall(r"`([\w/]+\.py)(?:: [\w.]+)?`", tour)) - {"apps/cli/VERB.py"}
    assert len(files) > 10
    for file in files:
        assert path_of(file).is_file(), file
    functions = re.findall(r"`([\w/]+\.py): ([\w.]+)`", tour)
    functions += [(file, name) for name, file in re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", tour)]
    assert len(functions) >= 5
    for file, name in functions:
        owner, _, function = name.rpartition(".")
        source = path_of(file).read_text(encoding="utf-8")
        body = (
            re.search(rf"^class {owner}\b.*?(?=^\S|\Z)", source[source.index("\n") :], re.M | re.S) if owner else None
        )
        assert not owner or body is not None, name
        assert re.search(rf"^ *def {function}\(", body[0] if body else source, re.M), f"{file}: {name}"


@pytest.mark.parametrize("page", sorted(DOCS.glob("adding_*.md")), ids=lambda page: page.name)
def test_guides_name_files_that_are_there(page: Path) -> None:
    for file in re.findall(r"`((?:src|tests|docs)/[\w/.]+|\w+/\w+\.py)`", page.read_text(encoding="utf-8")):
        assert (ROOT / file).exists() or path_of(file).exists(), file


def path_of(file: str) -> Path:
    return ROOT / file if file.startswith("src/") else ROOT / "src" / "attribune" / file
