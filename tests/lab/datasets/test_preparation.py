"""From published files to a prepared folder: counts, checksums, parts, folds, types, and a recipe that trains."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from published import csv_text, quote, read_rows, source_files, write, write_source
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.errors import DataError
from attribune.runs.recipe import Recipe
from attribune_lab.datasets.card import Card, Folds, Given, Hashed, Shuffled
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.prepared import PreparedSet, load_prepared
from attribune_lab.datasets.row_log import PARTS
from attribune_lab.datasets.sets import CARDS

Prepare = Callable[..., PreparedSet]


@pytest.fixture
def prepared(tmp_path: Path) -> Prepare:
    """Factory: a small source of a set, prepared; with other files, of those."""

    def make(
        card: Card | str, rows: int = 60, *, output: str = "out", files: dict[str, str | bytes] | None = None
    ) -> PreparedSet:
        card = CARDS[card] if isinstance(card, str) else card
        for name, content in (source_files(card.name, rows) if files is None else files).items():
            write(tmp_path / "source" / name, content)
        return prepare(card, source=tmp_path / "source", output=tmp_path / output, partial=True)

    return make


@pytest.fixture
def whole(trained_runs: TrainedRuns) -> Callable[[str], Path]:
    """Factory: a folder with the small source of a set, and the set as it is prepared; nothing in it may be changed."""

    def made(name: str) -> Path:
        def make(folder: Path) -> None:
            source = write_source(folder / "source", name)
            prepare(CARDS[name], source=source, output=folder / "out", partial=True)

        return trained_runs.once("prepared", name, make)

    return made


def texts(table: pa.Table) -> list[str]:
    return table["text"].to_pylist()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _cells(row: Mapping[str, Any]) -> str:
    """The cells of a row, whatever the order of its columns."""
    return str(sorted(row.items()))


class TestEverySet:
    @pytest.mark.slow
    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("name", CARDS)
    def test_the_manifest_says_what_is_in_the_folder(self, whole: Callable[[str], Path], name: str) -> None:
        folder = whole(name)
        manifest = json.loads((folder / "out" / "manifest.json").read_text())
        rows, log = read_rows(name, folder / "source")
        assert sum(part["rows"] for part in manifest["parts"].values()) == len(rows)
        for part in manifest["parts"].values():
            path = folder / "out" / part["file"]
            assert (part["bytes"], part["sha256"]) == (path.stat().st_size, sha256(path))
            assert part["rows"] == pq.read_metadata(path).num_rows
        assert (manifest["rows_read"], manifest["left_out"], manifest["bad"]) == (log.read, log.left_out, {})
        found = {file["role"]: file for file in manifest["origin"]["sources"]}
        needed = [file for file in CARDS[name].files if not file.optional]
        assert [*found] == [file.role for file in needed]
        for file in needed:
            path = file.find(folder / "source")
            about = {"role": file.role, "file": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}
            assert found[file.role] == about
        files = {".lock", "manifest.json", "recipe.yaml", *(part["file"] for part in manifest["parts"].values())}
        files |= {about["file"] for about in manifest.get("values", {}).values()}
        assert {path.name for path in (folder / "out").iterdir()} == files  # and no draft
        assert (manifest["name"], manifest["title"]) == (name, CARDS[name].title)
        said = ("citation", "licence", "revision", "terms", "preparation", "task", "labels")
        assert all(manifest[key] for key in said)
        assert [attribute["name"] for attribute in manifest["attributes"]] == [*CARDS[name].names()]
        assert ("pair" in manifest, "prompt" in manifest) == (CARDS[name].pair, CARDS[name].prompt)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", CARDS)
    def test_the_parts_share_out_all_rows_in_the_order_of_the_source(
        self, whole: Callable[[str], Path], name: str
    ) -> None:
        folder = whole(name)
        parts = load_prepared(folder / "out").parts()
        source = read_rows(name, folder / "source")[0]
        given = isinstance(CARDS[name].split, Given)

        def which(part: str | None, row: Mapping[str, Any]) -> tuple[Any, ...]:
            """A text, or one judgement of several of it."""
            names = ("prompt", "text_pair", "judge", "annotator", "user")
            several = names if CARDS[name].prompt else ("judge", "annotator")
            return (part if given else None, row["text"], *(row.get(one) for one in several))

        order = {which(part, row): place for place, (part, row) in enumerate(source)}
        places = [[order[which(part, row)] for row in parts[part].to_pylist()] for part in PARTS]
        assert sorted(chain.from_iterable(places)) == list(range(len(source)))  # each row once, in one part
        assert all(part and part == sorted(part) for part in places)
        group = getattr(CARDS[name].split, "group", None)  # is not kept, nor what describes values
        if group is not None:
            groups = [{source[place][1][group] for place in part if source[place][0] is None} for part in places]
            assert sum(map(len, groups)) == len(set.union(*groups)), "each is in one part"
        apart = {group, *chain.from_iterable(CARDS[name].values.values())} - {*CARDS[name].texts}
        kept = [{"text": ""} | row for table in parts.values() for row in table.to_pylist()]
        read = [{key: value for key, value in row.items() if key not in apart} for _, row in source]
        assert sorted(kept, key=_cells) == sorted(read, key=_cells)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", CARDS)
    def test_columns_are_text_or_lists_of_text(self, whole: Callable[[str], Path], name: str) -> None:
        done, card = load_prepared(whole(name) / "out"), CARDS[name]
        several = {"aapr": ["author", "research_area"], "food": ["ingredient", "tag"]}.get(name, [])
        assert [spec["name"] for spec in card.attributes if spec["kind"] == "multi_label"] == several
        assert done.texts == card.texts
        assert card.texts[-1] == ("text_pair" if card.pair else "text")
        columns = [*done.texts, *card.labels, *card.names()]
        types = {name: pa.list_(pa.string()) if name in several else pa.string() for name in columns}
        for table in done.parts().values():
            assert {name: table.schema.field(name).type for name in table.column_names} == types
            assert table.column_names == columns
        kinds = {column: kind.partition("<")[0] for column, kind in done.manifest["columns"].items()}
        assert kinds == {column: "list" if column in several else "string" for column in columns}

    @pytest.mark.slow
    @pytest.mark.parametrize("name", CARDS)
    def test_the_recipe_is_valid_and_names_the_files(self, whole: Callable[[str], Path], name: str) -> None:
        out = whole(name) / "out"
        content = (out / "recipe.yaml").read_text()
        assert f"attribune train --config {out / 'recipe.yaml'}" in content
        recipe, card = Recipe.from_dict(yaml.safe_load(content)), CARDS[name]
        files = [recipe.data.train, recipe.data.validation, recipe.data.test]
        if name == "polmed":
            assert files == [str(out / "all.parquet"), None, None]
        else:
            assert files == [str(out / f"{part}.parquet") for part in PARTS]
        assert (recipe.data.text, recipe.data.label, recipe.data.window) == (("text",), card.labels, card.window)
        assert recipe.data.text_pair == (("text_pair",) if card.pair else ())
        assert recipe.data.prompt == (("prompt",) if card.prompt else ())
        assert tuple(kind.name for kind in recipe.data.kinds()) == card.names()
        assert recipe.task["kind"] == card.task["kind"]

    @pytest.mark.slow
    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("name", CARDS)
    def test_another_preparation_writes_the_same_bytes(
        self, whole: Callable[[str], Path], prepared: Prepare, name: str
    ) -> None:
        other = prepared(name)
        assert not other.reused
        assert other.manifest == json.loads((whole(name) / "out" / "manifest.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "aapr",  # lists and parts
        pytest.param("polmed", marks=pytest.mark.exhaustive),  # folds
        pytest.param("beer", marks=pytest.mark.exhaustive),  # several labels
        pytest.param("sts-b", marks=pytest.mark.exhaustive),  # pairs and numbers
        pytest.param("sms-spam", marks=pytest.mark.exhaustive),  # no attributes
    ],
)
def test_the_recipe_trains(prepared: Prepare, tmp_path: Path, trained_runs: TrainedRuns, name: str) -> None:
    parts = prepared(name).parts()
    command = ["train", "--config", str(tmp_path / "out" / "recipe.yaml"), "--output", str(tmp_path / "run")]
    command += ["--backbone", str(trained_runs.backbone()), "--epochs", "1", "--batch-size", "16", "--no-baselines"]
    command += ["--set", "data.window=head:30", "training.precision=float32", "method.bottleneck=8"]
    command += ["method.vector_size=8"] if CARDS[name].attributes else []
    assert main(command) == 0
    results = json.loads((tmp_path / "run" / "metrics.json").read_text())
    hashed = isinstance(CARDS[name].split, Hashed)
    sizes = {part: len(table) for part, table in parts.items()} if hashed else {"train": 48, "validation": 6, "test": 6}
    assert results["rows"] == sizes


class TestShuffled:
    @pytest.mark.parametrize(
        ("split", "rows", "held"),
        [
            (Shuffled(rows=7), 100, 7),
            (Shuffled(rows=10), 100, 10),
            (Shuffled(rows=11), 100, 10),  # a tenth at most
            (Shuffled(rows=5), 9, 1),
            (Shuffled(share=0.1), 109, 10),
            (Shuffled(share=0.05), 100, 5),
        ],
    )
    def test_sizes_are_those_asked_for(self, split: Shuffled, rows: int, held: int) -> None:
        assert np.bincount(split.parts([], range(rows), [])).tolist() == [rows - 2 * held, held, held]

    def test_a_seed_gives_one_shuffle_and_another_seed_another(self) -> None:
        one = Shuffled(rows=50).parts([], range(1000), [])
        assert (one == Shuffled(rows=50).parts([], range(1000), [])).all()
        assert (one != Shuffled(rows=50, seed=1).parts([], range(1000), [])).any()
        held = np.flatnonzero(one)
        assert held.min() < 100  # from everywhere
        assert held.max() > 900

    def test_whole_texts_keep_equal_texts_together(self) -> None:
        numbers = np.random.default_rng(0).integers(200, size=1000)
        for seed in range(5):
            split = Shuffled(share=0.1, whole_texts=True, seed=seed)
            parts = split.parts([], numbers.tolist(), [])
            assert all(len(set(parts[numbers == number])) <= 1 for number in range(200))
            assert all(90 <= size <= 110 for size in np.bincount(parts)[1:])
            apart = replace(split, whole_texts=False).parts([], numbers.tolist(), [])
            assert any(len(set(apart[numbers == number])) > 1 for number in range(200))

    def test_a_quote_that_repeats_stays_in_one_part(self, prepared: Prepare) -> None:
        items = [quote(quote=f"Fine {i % 40}", fresh="fresh" if i % 2 else "rotten") for i in range(120)]
        done = prepared("critics", files={"critics.csv": csv_text(items)})
        parts = [set(texts(table)) for table in done.parts().values()]
        assert len(set.union(*parts)) == 40
        assert all(not one & other for one, other in combinations(parts, 2))

    def test_too_few_rows_are_refused(self, prepared: Prepare, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="critics: of 2 rows none is left for validation: give the whole files"):
            prepared("critics", 2)
        assert not (tmp_path / "out" / "manifest.json").exists()


class TestFolds:
    @pytest.mark.parametrize("rows", [10, 60, 103])
    def test_each_row_tests_once_and_the_next_fold_validates(self, prepared: Prepare, rows: int) -> None:
        done = prepared("polmed", rows)
        assert done.folds == 10
        folds = [done.parts(fold) for fold in range(10)]
        whole = sorted(texts(pq.read_table(done.file("all"))))
        assert len(whole) == rows
        assert sorted(text for fold in folds for text in texts(fold["test"])) == whole
        for fold, following in zip(folds, [*folds[1:], folds[0]], strict=True):
            assert texts(fold["validation"]) == texts(following["test"])
            assert sorted(text for table in fold.values() for text in texts(table)) == whole  # disjoint, complete
            assert rows // 10 <= len(fold["test"]) <= -(-rows // 10)
            assert tuple(fold) == PARTS
            assert "fold" not in fold["train"].column_names

    def test_folds_are_repeatable_and_shuffled(self) -> None:
        folds = Folds(number=10, seed=3).folds(1000)
        assert folds.dtype == np.int8
        assert np.bincount(folds).tolist() == [100] * 10
        assert (folds == Folds(number=10, seed=3).folds(1000)).all()
        assert (folds != Folds(number=10, seed=4).folds(1000)).any()
        assert all(len(set(folds[start : start + 100])) == 10 for start in range(0, 1000, 100))

    def test_fewer_rows_than_folds_are_refused(self, prepared: Prepare) -> None:
        with pytest.raises(DataError, match="polmed: 9 rows are too few for 10 folds: give the whole files"):
            prepared("polmed", 9)


class TestLoad:
    def test_what_was_prepared_is_loaded(self, prepared: Prepare, tmp_path: Path) -> None:
        done = prepared("imdb")
        found = load_prepared(tmp_path / "out")
        assert found.reused
        assert (found.manifest, found.folds, found.folder) == (done.manifest, 0, tmp_path / "out")
        assert found.parts() == done.parts()

    def test_a_folder_without_a_manifest_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"holds no prepared data set .*`attribune data prepare"):
            load_prepared(tmp_path)

    @pytest.mark.parametrize("content", ["", "{", "[1]", '{"name": "imdb", "start_url": "."}', "\udcff"])
    def test_another_manifest_is_refused(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "manifest.json").write_bytes(content.encode(errors="surrogateescape"))
        message = r"manifest\.json is damaged, or no manifest of a prepared data set: choose"
        with pytest.raises(DataError, match=message):
            load_prepared(tmp_path)

    @pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])])
    def test_a_damaged_part_is_named_and_prepared_again(
        self, prepared: Prepare, tmp_path: Path, damage: Callable[[Path], Any]
    ) -> None:
        done = prepared("imdb")
        damage(tmp_path / "out" / "test.parquet")
        message = r"test\.parquet is missing or not as it was prepared: prepare the set again"
        with pytest.raises(DataError, match=message):
            load_prepared(tmp_path / "out")
        again = prepared("imdb")
        assert not again.reused
        assert load_prepared(tmp_path / "out").manifest == again.manifest == done.manifest


@pytest.mark.exhaustive
@pytest.mark.slow
def test_more_rows_than_a_batch_keep_their_order(prepared: Prepare) -> None:
    parts = prepared("foodcom-reviews", 12_345).parts()
    assert {part: len(table) for part, table in parts.items()} == {"train": 9877, "validation": 1234, "test": 1234}
    assert sorted(int(text.split(", ")[1]) for table in parts.values() for text in texts(table)) == list(range(12_345))
    numbers = [int(text.split(", ")[1]) for text in texts(parts["train"])]
    assert numbers == sorted(numbers)


class TestCounts:
    def card(self, name: str, rows: int) -> Card:
        (file,) = CARDS[name].files
        return replace(CARDS[name], files=(replace(file, rows=rows),))

    @pytest.mark.parametrize(
        ("published", "message"),
        [
            (60, None),
            (61, r"reviews\.csv: 60 of the 61 rows .* a part, or was cut off; get it again, or .* partial=True"),
            (59, r"reviews\.csv: 60 rows, more than the 59 .*: this is another file; get it again, or"),
        ],
    )
    def test_a_part_of_a_file_is_told_from_another_file(
        self, tmp_path: Path, published: int, message: str | None
    ) -> None:
        card, source = self.card("amazon-instruments", published), write_source(tmp_path / "in", "amazon-instruments")
        if message is None:
            prepare(card, source=source, output=tmp_path / "out")
        else:
            with pytest.raises(DataError, match=message):
                prepare(card, source=source, output=tmp_path / "out")
            assert not (tmp_path / "out" / "manifest.json").exists()
            prepare(card, source=source, output=tmp_path / "out", partial=True)
        assert (tmp_path / "out" / "manifest.json").exists()

    @pytest.mark.parametrize(("name", "bad"), [("amazon-instruments", "too,few\n"), ("good", "{not json\n")])
    def test_a_broken_row_does_not_excuse_missing_ones(self, tmp_path: Path, name: str, bad: str) -> None:
        (path,) = (write(tmp_path / "in" / file, content + bad) for file, content in source_files(name).items())
        source = path.parent
        done = prepare(self.card(name, 61), source=source, output=tmp_path / "61", skip_bad=True)
        assert [entry["rows"] for entry in done.manifest["bad"].values()] == [1]
        with pytest.raises(DataError, match="61 of the 62 rows"):
            prepare(self.card(name, 62), source=source, output=tmp_path / "62", skip_bad=True)
