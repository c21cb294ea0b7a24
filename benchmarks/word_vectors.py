"""Word vectors from the training texts of prepared sets, as the papers of systems without pretraining have theirs.

    python benchmarks/word_vectors.py data/critics data/amazon-instruments data/studemo --output data/vectors.txt

They are the first dimensions of the positive pointwise mutual information of words and their neighbours (Levy and
Goldberg 2014, *Neural Word Embedding as Implicit Matrix Factorization*), with contexts smoothed by 3/4 and weighted by
distance, as in SkipGram with negative sampling. The file is GloVe's text format, for `--word-vectors`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from scipy import sparse
from sklearn.decomposition import TruncatedSVD

from attribune.backbones.loading import DEFAULT_BACKBONE, load_tokenizer
from attribune.core.files import replace_file
from attribune.data.tables import read_table

DEVIATION = 0.4  # of the numbers, as that of GloVe's
SMOOTHING = 0.75


def words_of(folders: Sequence[Path]) -> Iterator[list[str]]:
    """The words of each training text, lower case, cut as MiniLM's tokenizer cuts them before it makes pieces."""
    tokenizer = load_tokenizer(DEFAULT_BACKBONE).backend_tokenizer
    for folder in folders:
        data = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))["data"]
        columns = [data["text"]] if isinstance(data["text"], str) else data["text"]
        table = read_table(folder / "train.parquet")
        for column in columns:
            for text in table[column]:
                normal = tokenizer.normalizer.normalize_str(str(text))
                yield [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]


def counted_pairs(texts: Sequence[Sequence[str]], vocabulary: Sequence[str], window: int) -> Any:
    """How often words stand near each other, (V, V), the nearest ones counted in full."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    left: list[npt.NDArray[np.int64]] = []
    right: list[npt.NDArray[np.int64]] = []
    weights: list[npt.NDArray[np.float64]] = []
    for text in texts:
        ids = np.array([numbers.get(word, -1) for word in text])
        for distance in range(1, window + 1):
            one, other = ids[:-distance], ids[distance:]
            known = (one >= 0) & (other >= 0)
            left.append(one[known])
            right.append(other[known])
            weights.append(np.full(known.sum(), (window + 1 - distance) / window))
    places = (np.concatenate(left), np.concatenate(right))
    pairs = sparse.coo_matrix((np.concatenate(weights), places), shape=(len(numbers), len(numbers))).tocsr()
    return pairs + pairs.T


def positive_information(pairs: Any) -> Any:
    """Positive pointwise mutual information, (V, V)."""
    rows = np.asarray(pairs.sum(axis=1)).ravel()
    contexts = rows**SMOOTHING
    pairs = pairs.tocoo()
    found = np.log(pairs.data * contexts.sum() / (rows[pairs.row] * contexts[pairs.col]))
    kept = found > 0
    return sparse.csr_matrix((found[kept], (pairs.row[kept], pairs.col[kept])), shape=pairs.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="prepared sets")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of the vectors")
    parser.add_argument("--size", type=int, default=200, metavar="N", help="of a vector; 200")
    parser.add_argument("--window", type=int, default=5, metavar="N", help="words on each side; 5")
    parser.add_argument("--min-count", type=int, default=3, metavar="N", help="of a word that gets a vector; 3")
    options = parser.parse_args()
    texts = list(words_of(options.folders))
    counts = Counter(word for text in texts for word in text)
    vocabulary = [word for word, count in counts.most_common() if count >= options.min_count]
    model = TruncatedSVD(options.size, random_state=0)
    vectors = model.fit_transform(positive_information(counted_pairs(texts, vocabulary, options.window)))
    vectors /= np.sqrt(model.singular_values_)
    vectors *= DEVIATION / vectors.std()
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in row)}\n" for word, row in zip(vocabulary, vectors, strict=True))
    replace_file(options.output, "".join(lines).encode())
    print(f"{options.output}: {len(vocabulary):,} words of {len(texts):,} texts")


if __name__ == "__main__":
    main()
