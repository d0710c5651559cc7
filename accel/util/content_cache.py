"""A cache of results under a digest of everything that they depend on, and a folder that stores it."""

import contextlib
import hashlib
import os
import tempfile
import zlib
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Protocol

_MAGIC = b"cyclops\x01"
_DIGEST = 32  # bytes of SHA-256
_NOT, _FAST = 0, 1  # zlib's levels: texts shrink to a tenth at any but the first


class CacheStore(Protocol):
    """A store of entries, which are bytes; its methods raise nothing."""

    def get(self, key: str) -> bytes | None:
        """Returns the entry as it was put; None if there is none."""

    def put(self, key: str, data: bytes) -> None:
        """Stores the entry, replacing one of the same key; does nothing where it cannot."""


class SealedCache:
    """Entries of a store, each sealed by a digest that detects damage; without a store there are none."""

    def __init__(self, cache: CacheStore | None) -> None:
        self._cache = cache

    @property
    def present(self) -> bool:
        """Whether there is a store."""
        return self._cache is not None

    def get(self, key: str) -> bytes | None:
        """Returns the data that :meth:`put` stored under this key; None if there are none, or they are damaged."""
        data = self._cache.get(key) if self._cache is not None else None
        if data is None or not data.startswith(_MAGIC):
            return None
        seal, packed = data[len(_MAGIC) :][:_DIGEST], data[len(_MAGIC) + _DIGEST :]
        return zlib.decompress(packed) if seal == _seal(key, packed) else None

    def put(self, key: str, data: bytes, *, packed: bool = False) -> None:
        """Stores ``data`` under the key; what is ``packed`` is not compressed once more."""
        if self._cache is not None:
            stored = zlib.compress(data, _NOT if packed else _FAST)
            self._cache.put(key, _MAGIC + _seal(key, stored) + stored)


def cache_key(kind: str, *parts: str) -> str:
    """Returns the key of a result of ``kind``, 64 hexadecimal digits, from everything on which it depends.

    Every key includes a digest of this package's sources.
    """
    digest = hashlib.sha256()
    for part in (_compiler(), kind, *parts):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _seal(key: str, packed: bytes) -> bytes:
    return hashlib.sha256(key.encode() + packed).digest()


@lru_cache(maxsize=1)
def _compiler() -> str:
    """The version of this compiler and of TVM, and a digest of the sources of this package."""
    return " ".join([installed_version("cyclops"), installed_version("apache-tvm"), sources_digest()])


@lru_cache(maxsize=1)  # the sources of a running process are what it loaded
def sources_digest() -> str:
    """Returns the SHA-256 over the names and contents of this package's modules, in hexadecimal digits."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def installed_version(distribution: str) -> str:
    """Returns the version of an installed distribution; empty where there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


class FolderCache:
    """A store with a file for each entry. Entries that cannot be read or written count as absent."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str) -> bytes | None:
        """Returns the entry, or None."""
        try:
            return (self._directory / key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, data: bytes) -> None:
        """Writes the entry beside its place, then moves it there, so that no reader sees half of it."""
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(name).replace(self._directory / key)
            except OSError:
                Path(name).unlink(missing_ok=True)
