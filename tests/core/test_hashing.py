"""Hashes of texts and content: saved folders hold them, so that they never change."""

from __future__ import annotations

from pathlib import Path

from attribune.core.hashing import checksum, file_sha256, sha256, text_digest, text_number, text_numbers

DIGEST = "06ab58b78490a392"


def test_hashes_are_those_of_saved_folders() -> None:
    assert text_digest("Grüße").hex() == DIGEST
    assert text_digest("a", size=16, key=b"salt", person=b"check") != text_digest("a", size=16, key=b"salt")
    assert text_number("Grüße") == int.from_bytes(bytes.fromhex(DIGEST), "little")
    assert text_numbers(["Grüße", ""]).tolist() == [text_number("Grüße"), text_number("")]


def test_half_of_a_character_pair_has_a_hash() -> None:
    assert text_digest("\ud83d") != text_digest("\ud83e")


def test_checksums_are_those_of_all_parts_together(tmp_path: Path) -> None:
    assert checksum([b"ab", memoryview(b"c")], size=16) == checksum([b"abc"], size=16) != checksum([b"ab"], size=16)
    (tmp_path / "file").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_sha256(tmp_path / "file") == sha256([b"a", b"bc"]) == known
