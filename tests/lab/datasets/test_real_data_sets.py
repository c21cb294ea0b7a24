"""The real files, whole or in part: figures of the papers, and every reader on text that people wrote."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from attribune.errors import DataError
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.prepared import PreparedSet
from attribune_lab.datasets.readers.reviews import read_pairs
from attribune_lab.datasets.row_log import RowLog, words
from attribune_lab.datasets.sets import ADDITIONAL, CARDS
from attribune_lab.datasets.statistics import best_subset, describe_set, divergences

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("ATTRIBUNE_DATA", ROOT.parent / "shared" / "data"))


def real(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{DATA / name} is not here: set ATTRIBUNE_DATA to the folder of the data files")
    return DATA / name


@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if any(file.sha256 for file in card.files)])
def test_files_have_the_checksums_of_the_card(name: str) -> None:
    for file in (file for file in CARDS[name].files if file.sha256):
        path = next((found for folder in (DATA, *DATA.glob("*/")) if (found := file.find(folder))), None)
        if path is None:
            pytest.skip(f"{file.names[0]} is not in {DATA}: set ATTRIBUNE_DATA to the folder of the data files")
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert hashlib.sha256(content).hexdigest() == file.sha256


@pytest.fixture(scope="module")
def polmed(tmp_path_factory: pytest.TempPathFactory) -> PreparedSet:
    source = real("polmed/political_social_media.csv").parent
    return prepare(CARDS["polmed"], source=source, output=tmp_path_factory.mktemp("polmed"))


class TestPolMed:
    def test_sizes_are_those_of_table_1(self, polmed: PreparedSet) -> None:
        found = describe_set(polmed, published=dict(CARDS["polmed"].published))
        figures = {figure.name: figure for figure in found}
        assert (figures["train"].value, figures["test"].value) == (4500, 500)
        assert figures["words"].value == pytest.approx(38, rel=0.1)
        assert figures["words_sd"].value == pytest.approx(62, rel=0.1)
        assert figures["classes"].value == 9
        assert len(polmed.manifest["attributes"]) == 4
        assert round(figures["values"].value / 1000, 1) == 0.5
        sparse = figures["sparse"]
        assert sparse.spread is not None
        assert abs(sparse.value - 63.8) <= 2 * sparse.spread
        assert sparse.spread < 2
        assert not polmed.manifest["left_out"]
        assert sum(figure.agrees() or 0 for figure in found) == len(CARDS["polmed"].published)

    def test_divergences_are_those_of_table_6(self, polmed: PreparedSet) -> None:
        published = dict(CARDS["polmed"].divergence)
        found = divergences(polmed, published=published)
        assert {figure.name for figure in found} == published.keys() - {"best subset"}
        _, least = best_subset(polmed, published=published["best subset"])
        for figure in [*found, least]:
            assert figure.spread is not None
            assert figure.published is not None
            assert figure.spread < 0.2
            if figure.name == "random":
                assert figure.value == pytest.approx(2.195, abs=1e-3)
            else:
                assert abs(figure.value - figure.published) <= 2 * figure.spread, figure

    def test_the_divergences_under_the_names_of_the_table_would_not_fit(self, polmed: PreparedSet) -> None:
        printed = {"politician": 1.790, "source": 1.728, "audience": 3.640, "bias": 1.844}
        for figure in divergences(polmed, published=printed):
            if figure.published is not None:
                assert figure.spread is not None
                assert abs(figure.value - figure.published) > 2 * figure.spread, figure


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *(("yelp2013/train_zero2", 2589), ("yelp2013/train_zero5", 1641), ("yelp2013/train_zero8", 656)),
        *(("imdb/train_zero2", 2365), ("imdb/train_zero5", 1499), ("imdb/train_zero8", 562)),
    ],
)
def test_cold_start_lists_have_their_rows_and_vocabularies(name: str, values: int) -> None:
    path = real(f"cold_ids/{name}.txt.ids.gz")
    base = name.split("/")[0].replace("yelp", "yelp-")
    card = CARDS[f"{base}-cold-{name[-1]}0"]
    assert card.files[3].find(path.parents[1]) == path
    assert card.files[3].find(path.parents[2]) == path
    log = RowLog()
    pairs = [pair for _, pair in read_pairs(path, log=log)]
    assert log.read["pairs"] == len(pairs) == card.files[3].rows
    assert round(len(pairs) / 1000, 1) == card.published["train"] / 1000
    assert len({user for user, _ in pairs}) + len({product for _, product in pairs}) == values
    assert round(values / 1000, 1) == card.published["values"] / 1000


@pytest.mark.parametrize("name", ["yelp-2013-cold-80", "imdb-cold-80"])
def test_rows_made_of_a_real_list_are_picked_out_again(tmp_path: Path, name: str) -> None:
    base = name.removesuffix("-cold-80")
    path = real(f"cold_ids/{base.replace('yelp-', 'yelp')}/train_zero8.txt.ids.gz")
    pairs = [line.split("\t\t") for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    rows = [
        f"{user}\t\t{product}\t\t{1 + place % 5}\t\tn{place} <sssss>" for place, (user, product) in enumerate(pairs)
    ]
    others = [f"u{place}\t\tp{place}\t\t3\t\tother" for place in range(len(rows))]
    mixed = [line for two in zip(others, rows, strict=True) for line in two]
    for file, lines in zip(CARDS[base].files, (mixed, others[:9], others[:7]), strict=True):
        (tmp_path / file.names[0]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / path.parent.name).mkdir()
    shutil.copy(path, tmp_path / path.parent.name)
    done = prepare(CARDS[name], source=tmp_path, output=tmp_path / "out", partial=True)
    assert done.parts()["train"]["text"].to_pylist() == [f"n{place}" for place in range(len(rows))]
    assert done.manifest["remarks"] == {}


@pytest.mark.parametrize("sample", ["dishcovery_recipes_small.csv", "nsakuja_RAW_recipes_sample.csv"])
def test_food_is_prepared_of_its_samples(tmp_path: Path, sample: str) -> None:
    path = real(f"foodcom/{sample}")
    (tmp_path / "in").mkdir()
    shutil.copy(path, tmp_path / "in" / "RAW_recipes.csv")
    done = prepare(CARDS["food"], source=tmp_path / "in", output=tmp_path / "out", partial=True)
    parts = done.parts()
    assert (
        sum(map(len, parts.values())) + sum(done.manifest["left_out"].values()) == done.manifest["rows_read"]["recipes"]
    )
    assert done.manifest["rows_read"] == {"recipes": 381 if "dishcovery" in sample else 100}
    rows = [row for table in parts.values() for row in table.to_pylist()]
    assert {row["minutes"] for row in rows} <= {str(tens) for tens in range(0, 160, 10)}
    tags = {tag for row in rows for tag in row["tag"]}
    assert "3-steps-or-less" in tags  # which is no duration
    assert not {tag for tag in tags if re.search(r"minutes|hours|days?-or|time-to-make", tag)}
    assert all(row["ingredient"] and 10 <= words(row["text"]) <= 500 for row in rows)
    figures = {figure.name: figure.value for figure in describe_set(done)}
    assert figures["words"] == pytest.approx(101, rel=0.15)


def test_beer_is_prepared_of_its_first_rows(tmp_path: Path) -> None:
    source = real("beeradvocate/beer_head.jsonl").parent
    done = prepare(CARDS["beer"], source=source, output=tmp_path / "out", partial=True)
    assert done.manifest["rows_read"] == {"reviews": 2469}
    parts = done.parts()
    assert 2000 < sum(map(len, parts.values())) < 2469
    for table in parts.values():
        for name in ("appearance", "aroma", "palate", "taste", "overall"):
            assert set(table[name].to_pylist()) <= {f"{halves / 2:g}" for halves in range(2, 11)}
        assert "" not in set(table["user"].to_pylist())
    assert done.manifest["bad"] == {}


@pytest.mark.parametrize(
    ("name", "folder", "read", "kept"),
    [
        ("critics", "rt_critics", 27_669, range(15_000, 16_000)),
        ("amazon-instruments", "amazon_musical_instruments", 10_261, range(10_200, 10_262)),
    ],
)
def test_easy_sets_are_prepared_whole(tmp_path: Path, name: str, folder: str, read: int, kept: range) -> None:
    card = CARDS[name]
    source = real(f"{folder}/{Path(card.files[0].names[0]).name}").parent
    done = prepare(card, source=source, output=tmp_path / "out")
    assert list(done.manifest["rows_read"].values()) == [read]
    parts = done.parts()
    sizes = {part: len(table) for part, table in parts.items()}
    assert sum(sizes.values()) in kept
    assert sum(sizes.values()) + sum(done.manifest["left_out"].values()) == read
    assert all(abs(10 * sizes[part] / sum(sizes.values()) - 1) < 0.02 for part in ("validation", "test"))
    texts = [set(table["text"].to_pylist()) for table in parts.values()]
    assert len(set.union(*texts)) == sum(map(len, texts))  # a text is in one part
    assert len({label for table in parts.values() for label in table[card.labels[0]].to_pylist()}) == card.classes


@pytest.mark.parametrize(
    ("name", "file", "judgements", "judges"),
    [
        ("politeness", "politeness/wikipedia.annotated.csv.gz", 54_780, 390),
        ("studemo", "studemo/text_data.csv.gz", 7_463, 25),
        ("studemo-arousal", "studemo/text_data.csv.gz", 7_463, 25),
        ("hs-brexit", "lewidi/HS-Brexit_train.json.gz", 6_720, 6),
        ("convabuse", "lewidi/ConvAbuse_train.json.gz", 12_168, 8),
    ],
)
def test_every_judgement_is_prepared(tmp_path: Path, name: str, file: str, judgements: int, judges: int) -> None:
    done = prepare(CARDS[name], source=real(file).parent, output=tmp_path / "out")
    parts = done.parts()
    assert sum(map(len, parts.values())) == judgements
    assert len(set().union(*(table[CARDS[name].names()[0]].to_pylist() for table in parts.values()))) == judges
    texts = [set(table["text"].to_pylist()) for table in parts.values()]
    assert len(set.union(*texts)) == sum(map(len, texts))  # a text is in one part
    assert all(len(table) > 0.1 * 0.95 * judgements for table in parts.values())


def test_preferences_are_prepared_by_debate(tmp_path: Path) -> None:
    source = real("preferences/ukpconvarg1_crowd.csv.gz").parent
    done = prepare(CARDS["ukpconvarg1"], source=source, output=tmp_path / "out")
    assert done.manifest["differences"] == []
    assert done.manifest["left_out"] == {"the same text twice": 75}
    parts = done.parts()
    assert {part: len(table) for part, table in parts.items()} == {
        "train": 53_751,
        "validation": 14_956,
        "test": 15_663,
    }
    debates = [{topic.partition("_")[0] for topic in table["topic"].to_pylist()} for table in parts.values()]
    assert [*map(len, debates)] == [10, 3, 3]
    assert len(set().union(*debates)) == 16
    judges = set().union(*(table["judge"].to_pylist() for table in parts.values()))
    assert len(judges) == 3_815
    assert set(parts["test"]["preferred"].to_pylist()) == {"first", "second", "tie"}


def test_reviews_of_recipes_are_prepared_of_a_part(tmp_path: Path) -> None:
    source = real("foodcom/dishcovery_interactions_small.csv").parent
    done = prepare(CARDS["foodcom-reviews"], source=source, output=tmp_path / "out")
    assert done.manifest["rows_read"] == {"reviews": 10_077}
    assert set(pq.read_table(done.file("train"))["rating"].to_pylist()) == set("12345")


SIZES = {  # kept rows, and those of the test part
    "cola": (9_578, 1_043),
    "sst-2": (68_221, 872),
    "mrpc": (5_801, 1_725),
    "sts-b": (7_119, 1_379),
    "qqp": (9_999, 1_000),
    "mnli": (19_814, 9_815),
    "mnli-mismatched": (14_529, 4_530),
    "qnli": (15_462, 5_463),
    "rte": (2_767, 277),
    "wnli": (706, 71),
    "20-newsgroups": (18_846, 7_532),
    "airline": (14_402, 1_468),
    "corporate-messaging": (2_907, 308),
    "disasters": (10_638, 1_036),
    "economic-news": (4_141, 386),
    "emotion": (39_765, 3_915),
    "global-warming": (3_869, 398),
    "political-audience": (5_000, 495),
    "political-bias": (5_000, 495),
    "political-message": (5_000, 495),
    "primary-emotions": (2_469, 232),
    "progressive-opinion": (1_150, 119),
    "progressive-stance": (1_150, 119),
    "us-economic-performance": (5_015, 487),
    "complaints": (5_994, 627),
    "news-aggregator": (6_321, 562),
    "news-aggregator-five": (13_095, 1_330),
    "sms-spam": (5_160, 522),
}


@pytest.mark.parametrize("name", SIZES)
def test_sets_of_texts_are_prepared_of_what_there_is(tmp_path: Path, name: str) -> None:
    card = CARDS[name]
    folders = (DATA, *DATA.glob("*/"))
    source = next((one for one in folders if all(file.optional or file.find(one) for file in card.files)), None)
    if source is None:
        pytest.skip(f"{card.files[0].names[0]} is not in {DATA}: set ATTRIBUNE_DATA to the folder of the data files")
    done = prepare(card, source=source, output=tmp_path / "out", partial=True)
    parts = done.parts()
    assert (sum(map(len, parts.values())), len(parts["test"])) == SIZES[name]
    assert not done.manifest["bad"]
    read = sum(done.manifest["rows_read"].values())
    assert sum(done.manifest["left_out"].values()) + SIZES[name][0] == read
    texts = {
        part: set(zip(*(table[one].to_pylist() for one in done.texts), strict=True)) for part, table in parts.items()
    }
    assert not texts["train"] & texts["validation"]
    assert not (texts["train"] | texts["validation"]) & texts["test"]
    assert all(text.strip() for found in texts.values() for row in found for text in row)
    found = {figure.name: figure.value for figure in describe_set(done)}
    if card in ADDITIONAL:
        assert found["characters"] == pytest.approx(card.published["characters"], rel=0.05)
    if name != "complaints":  # of which there are the issues of a part
        assert found.get("classes", 0) == card.classes


def test_set_of_another_task_is_refused(tmp_path: Path) -> None:
    """WNLI has the columns of RTE and other labels."""
    source = real("glue/WNLI/train.tsv").parent
    with pytest.raises(DataError, match=r"the label is not one of entailment, not_entailment \('[01]'\)"):
        prepare(CARDS["rte"], source=source, output=tmp_path / "out", partial=True)
