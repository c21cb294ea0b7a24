"""Long documents: what a training step costs by length, and what reading more of a text is worth.

    python benchmarks/long_documents.py memory [--longest 4096]
    python benchmarks/long_documents.py accuracy --prepared data/20-newsgroups [--rows 400] [--workers 2]

All backbones have MiniLM's size: 6 layers, 384 features, 12 heads. `memory` takes random weights, and one document of
each length, in a process of its own for each; `peak` is what the process took at most beyond what it had before the
step, gradients included. `accuracy` takes posts of 20 Newsgroups of at least 1,024 tokens and the lower three layers of
the pretrained MiniLM, from whose weights Longformer and BigBird are made as Beltagy et al. 2020, section 5, make
Longformer from RoBERTa: the table of positions is repeated, and the projections of global tokens begin as those of the
others. No pretraining goes on from there, so that these two are lower bounds. Both write parts of
benchmarks/results/long_documents.json; `accuracy` goes on where it stopped.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
import transformers
import yaml
from harness import RUNS, arguments, child, measured, seconds, write_result
from models import MINILM, batch_of
from transformers import BertModel

from attribune import AttributeModel, Categorical, Classification, Schema
from attribune.backbones.loading import DEFAULT_BACKBONE, build_backbone, load_backbone, load_tokenizer
from attribune.core.process import peak_megabytes
from attribune.data.texts import TextInput
from attribune.data.windows import parse_window
from attribune.methods import E2ln, Plain

MIB = 2**20 / 1e6  # in MB
LENGTHS = (256, 512, 1024, 2048, 4096)
POSITIONS = 512  # of MiniLM
CHUNK, STRIDE = 202, 150  # of ToBERT
LEAST = 1024  # tokens of the posts
LAYERS = 3  # of MiniLM, for the accuracy: a half of the time


def count_of(tokens: int) -> int:
    """Overlapping chunks of a text."""
    return 1 + -(-max(tokens - CHUNK + 2, 0) // STRIDE)


POOLINGS = {  # of the same text, since E2LN pools in its own way and the others take the first token
    "head, mean": {"window": f"head:{POSITIONS}", "pooling": "mean"},
    "e2ln": {"window": f"head:{POSITIONS}", "method": "e2ln"},
}


# How a text of so many tokens is read: backbone, window, method and chunk encoder


def ways(tokens: int) -> dict[str, dict[str, Any]]:
    """Every way to read as many tokens, by its name; `head` and `head+tail` leave out what is beyond the positions."""
    chunks = {"window": f"chunks:{POSITIONS}x{-(-tokens // POSITIONS)}"}
    overlapping = {"window": f"chunks:{CHUNK}x{count_of(tokens)}:{STRIDE}"}
    found: dict[str, dict[str, Any]] = {
        "head": {"window": f"head:{min(tokens, POSITIONS)}"},
        "longformer": {"window": f"head:{tokens}", "backbone": "longformer"},
        "big_bird": {"window": f"head:{tokens}", "backbone": "big_bird"},
        "tobert": {**overlapping, "chunk_encoder": {"name": "tobert"}},
    }
    if tokens > POSITIONS:
        found |= {"chunks": chunks, "e2ln": {**chunks, "method": "e2ln"}}
    if tokens == POSITIONS:
        found["head+tail"] = {"window": "head+tail:128+384:special"}
    return found


def like_minilm(kind: str, *, positions: int, layers: int = MINILM.layers) -> transformers.PreTrainedConfig:
    """The configuration of a family, of MiniLM's size, for texts of so many tokens."""
    like = replace(MINILM, layers=layers).config()
    same = like.to_dict()
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size", "hidden_act")
    shape = {name: same[name] for name in (*names, "layer_norm_eps", "type_vocab_size")} | {"pad_token_id": 0}
    if kind == "longformer":  # positions begin after that of padding
        return transformers.LongformerConfig(**shape, max_position_embeddings=positions + 1, attention_window=512)
    if kind == "big_bird":
        options = {"attention_type": "block_sparse", "block_size": 64, "num_random_blocks": 3}
        special = {"bos_token_id": 101, "sep_token_id": 102, "eos_token_id": 102}
        return transformers.BigBirdConfig(**shape, **options, **special, max_position_embeddings=positions)
    return like


# Memory and time


def step(tokens: int, way: dict[str, Any]) -> dict[str, float]:
    """Forward and backward pass of one document: megabytes, and seconds of the second step."""
    torch.manual_seed(0)
    backbone = build_backbone(like_minilm(way.get("backbone", "bert"), positions=tokens))
    window = parse_window(way["window"], max_length=tokens)
    method = E2ln(norms="none") if way.get("method") == "e2ln" else Plain()
    model = AttributeModel.build(
        backbone,
        Schema.fit({"user": ["a"]}, [Categorical("user")]),
        task=Classification(classes=5),
        method=method,
        text_input=TextInput.of("text", window=window),
        chunk_encoder=way.get("chunk_encoder"),
    ).train()
    read = count_of(tokens) * CHUNK if "chunk_encoder" in way else min(tokens, POSITIONS)
    read = tokens if "backbone" in way or way["window"].startswith("chunks:512") else read
    given = batch_of(1, read, torch.zeros(1, 1, dtype=torch.int64))

    def once() -> None:
        model.zero_grad()
        model(**given).loss.backward()

    before = peak_megabytes()
    once()
    peak = (peak_megabytes() - before) * MIB
    return {"peak": peak, "seconds": min(seconds(once) for _ in range(2)), "ids": read}


def memory(longest: int) -> dict[str, Any]:
    """Every way at every length."""
    lengths = [tokens for tokens in LENGTHS if tokens <= longest]
    return {str(tokens): {name: child(step, tokens, way) for name, way in ways(tokens).items()} for tokens in lengths}


# Accuracy


def converted(kind: str, source: BertModel, *, positions: int, folder: Path) -> str:
    """Write a BERT, Longformer or BigBird with the lower layers of a BERT; returns the folder."""
    config = like_minilm(kind, positions=positions, layers=LAYERS)
    target = transformers.AutoModel.from_config(config, add_pooling_layer=False)
    first = 1 if kind == "longformer" else 0
    given = source.state_dict()
    table = given.pop("embeddings.position_embeddings.weight")
    repeated = table[torch.arange(positions) % len(table)]
    own = target.state_dict()["embeddings.position_embeddings.weight"]
    given["embeddings.position_embeddings.weight"] = torch.cat([own[:first], repeated])
    for name in [name for name in given if ".self." in name and kind == "longformer"]:
        for part in ("query", "key", "value"):
            given[name.replace(f".{part}.", f".{part}_global.")] = given[name]
    lacking, _ = target.load_state_dict(given, strict=False)
    assert all("position_ids" in name or "token_type_ids" in name for name in lacking), lacking
    target.save_pretrained(folder)
    tokenizer = load_tokenizer(DEFAULT_BACKBONE)
    tokenizer.model_max_length = positions
    tokenizer.save_pretrained(folder)
    return str(folder)


def long_posts(prepared: Path, folder: Path, *, rows: int) -> dict[str, str]:
    """Write the posts of at least so many tokens; returns the files."""
    tokenizer = load_tokenizer(DEFAULT_BACKBONE)
    files = {}
    for part in ("train", "validation", "test"):
        table = pq.read_table(prepared / f"{part}.parquet")
        ids = tokenizer(table["text"].to_pylist(), truncation=False, verbose=False)["input_ids"]
        table = table.filter(pc.greater_equal(pa.array([len(text) for text in ids]), LEAST))
        most = rows if part == "train" else 1000
        order = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:most]
        files[part] = str(folder / f"{part}.parquet")
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.take(pa.array(sorted(order.tolist()))), files[part])
    return files


def accuracy(prepared: Path, *, rows: int, workers: int, longest: int) -> dict[str, Any]:
    """Train every way at every length as an experiment; returns the record of its table."""
    folder = RUNS / "long_documents"
    files = long_posts(prepared, folder / "posts", rows=rows)
    minilm = load_backbone(DEFAULT_BACKBONE)
    assert isinstance(minilm, BertModel)
    folders = {
        kind: converted(kind, minilm, positions=positions, folder=folder / kind)
        for kind, positions in (("bert", POSITIONS), ("longformer", max(LENGTHS)), ("big_bird", max(LENGTHS)))
    }
    settings = []
    for tokens in (tokens for tokens in LENGTHS if tokens <= longest):
        for name, way in (ways(tokens) | (POOLINGS if tokens == POSITIONS else {})).items():
            if name == "head" and tokens > POSITIONS:
                continue  # the same as at 512
            method = {"name": "e2ln", "norms": "none"} if way.get("method") else {"name": "none"}
            backbone = {"name": folders[way.get("backbone", "bert")]}
            backbone |= {key: way[key] for key in ("chunk_encoder", "pooling") if key in way}
            settings.append(
                {"name": f"{name} {tokens}", "method": method, "backbone": backbone, "data": {"window": way["window"]}}
            )
    label = next(name for name in pq.read_schema(files["train"]).names if name not in ("text",))
    experiment = {
        "name": "long-documents",
        "title": f"Posts of at least {LEAST:,} tokens",
        "sets": [{"name": "posts", "title": "20 Newsgroups", "data": {**files, "text": "text", "label": label}}],
        "settings": settings,
        "training": {
            "learning_rate": 1e-3,
            "backbone_learning_rate": 1e-4,
            "batch_size": 8,
            "steps": 3 * rows // 8,
            "evaluate_every": rows // 8,
        },
        "reference": "head 512",
    }
    plan, output, record = folder / "experiment.yaml", folder / "cells", folder / "table.json"
    plan.write_text(yaml.safe_dump(experiment, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "attribune", "benchmark"]
    subprocess.run([*command, "run", str(plan), "--output", str(output), "--workers", str(workers)], check=True)
    subprocess.run([*command, "table", str(output), "--json", str(record)], check=True)
    return dict(yaml.safe_load(record.read_text(encoding="utf-8")))


def main() -> None:
    parser = arguments(__doc__, "long_documents")
    parser.add_argument("what", choices=["memory", "accuracy"])
    parser.add_argument("--prepared", type=Path, metavar="FOLDER", help="20 Newsgroups, prepared")
    parser.add_argument("--rows", type=int, default=400, metavar="N", help="training rows; 400")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="trainings at a time; 2")
    parser.add_argument(
        "--longest", type=int, default=None, metavar="N", help="tokens at most; 4,096, and 2,048 for the accuracy"
    )
    options = parser.parse_args()
    if options.what == "accuracy" and options.prepared is None:
        parser.error("accuracy needs --prepared, a folder that `attribune data prepare 20-newsgroups` wrote")
    if options.what == "memory":
        found = {"memory": memory(options.longest or max(LENGTHS))}
    else:
        longest = options.longest or 2048  # the median of these posts is 1,500
        found = {"accuracy": accuracy(options.prepared, rows=options.rows, workers=options.workers, longest=longest)}
    known = measured("long_documents") if options.output.is_file() else {}
    write_result(options.output, {**{key: known[key] for key in ("memory", "accuracy") if key in known}, **found})


if __name__ == "__main__":
    main()
