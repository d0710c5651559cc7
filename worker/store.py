"""The object store: documents and blobs under keys, over obstore.

Keys are made in this package from validated parts only; :meth:`Store.check` is the last line of defence,
so that no text from a user reaches the file system as a path.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*")
_CHUNK = 1 << 20


class Store:
    """Objects by key. Writes are atomic; ``create`` never overwrites."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._store = LocalStore(prefix=root.resolve(), mkdir=True)

    @staticmethod
    def check(key: str) -> str:
        """The key itself.

        Raises:
            ValueError: it has an empty, hidden or parent segment, or an unusual character.
        """
        if not _KEY.fullmatch(key) or len(key) > 512:
            raise ValueError(f"not a key of the store: {key!r}")
        return key

    def read(self, key: str) -> bytes:
        """The whole object; FileNotFoundError if there is none."""
        return bytes(obstore.get(self._store, self.check(key)).bytes())

    def write(self, key: str, data: bytes) -> None:
        """Write or replace a small object."""
        obstore.put(self._store, self.check(key), data, use_multipart=False)

    def create(self, key: str, data: bytes) -> bool:
        """Write a small object if there is none; False if there was one."""
        try:
            obstore.put(self._store, self.check(key), data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def put_file(self, key: str, path: Path) -> None:
        """Write or replace an object from a file, in chunks."""
        obstore.put(self._store, self.check(key), path)

    def size(self, key: str) -> int | None:
        """Bytes of the object, or None if there is none."""
        try:
            return int(obstore.head(self._store, self.check(key))["size"])
        except FileNotFoundError:
            return None

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        return self.size(key) is not None

    def stream(self, key: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Bytes ``[begin, end)`` of the object in chunks; FileNotFoundError if there is none.

        The object is opened before this returns, so that the caller can still answer with an error.
        """
        self.check(key)
        if begin == 0 and end is None:
            result = obstore.get(self._store, key)
        else:
            result = obstore.get(self._store, key, options={"range": (begin, self._end(key, end))})
        return (bytes(chunk) for chunk in result.stream(min_chunk_size=_CHUNK))

    def read_range(self, key: str, begin: int, end: int) -> bytes:
        """Bytes ``[begin, end)`` of the object, in one request; FileNotFoundError if there is none."""
        return bytes(obstore.get_range(self._store, self.check(key), start=begin, end=end))

    def _end(self, key: str, end: int | None) -> int:
        return int(obstore.head(self._store, key)["size"]) if end is None else end

    def fetch(self, key: str, path: Path) -> None:
        """Copy the object into a local file; FileNotFoundError if there is none."""
        chunks = self.stream(key)
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Keys under ``prefix`` (a folder) and their sizes, sorted by key."""
        found = obstore.list(self._store, prefix=self.check(prefix)).collect()
        return dict(sorted((item["path"], int(item["size"])) for item in found))

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly under ``prefix``, sorted."""
        found = obstore.list_with_delimiter(self._store, prefix=self.check(prefix))["common_prefixes"]
        return sorted(path.rsplit("/", 1)[-1] for path in found)

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""
        try:
            obstore.delete(self._store, self.check(key))
        except FileNotFoundError:
            return

    def probe(self) -> None:
        """Write and read an object; OSError if the store is away."""
        self.write("probe", b"ok")
        self.read("probe")
