"""Hashes of texts and checksums of content that is the same on every machine; saved folders hold some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Content: TypeAlias = bytes | memoryview


def text_digest(text: str, *, size: int = 8, key: bytes = b"", person: bytes = b"") -> bytes:
    """Return the hash of a text, half of a character pair included.

    Args:
        size: of the hash in bytes.
        key: a secret of at most 64 bytes, without which nobody can tell which text a hash is of.
        person: sets hashes for one purpose apart from those for others.
    """
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=size, key=key, person=person).digest()


def text_number(text: str, *, size: int = 8, key: bytes = b"") -> int:
    """Return the hash of a text as a number from 0 on, of `size` bytes."""
    return int.from_bytes(text_digest(text, size=size, key=key), "little")


def text_numbers(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Return the hashes of texts as numbers, (texts,)."""
    return np.frombuffer(b"".join(map(text_digest, texts)), dtype="<u8").astype(np.uint64)


def checksum(parts: Iterable[Content], *, size: int = 8) -> str:
    """Return a checksum of content, in hexadecimal digits.

    Args:
        parts: of the content, one after the other.
        size: of the checksum in bytes.
    """
    digest = hashlib.blake2b(digest_size=size)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def sha256(parts: Iterable[Content]) -> str:
    """Return the SHA-256 of content, in hexadecimal digits, as other programs compute it.

    Args:
        parts: of the content, one after the other.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits; OSError for a file that cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
