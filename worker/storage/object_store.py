"""The object store: documents and blobs under keys, in a folder or in an S3-compatible bucket, over obstore.

Keys are made in this package from validated parts only; :meth:`Store.check` is the last line of defence,
so that no text from a user reaches the file system as a path.
"""

import contextlib
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError
from obstore.store import LocalStore, ObjectStore

from worker.storage import folder_backend
from worker.storage.s3_bucket import Bucket

if TYPE_CHECKING:  # not there at run time
    from obstore import GetOptions, GetResult

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*")
_CHUNK = 1 << 20
# of a large file these parts are all that is held in memory; a bucket takes 10,000 of them, and none below 5 MiB
_BUCKET_PART = 8 << 20
_PARTS_AT_ONCE = 2
_FILES_AT_ONCE = 2
_READS_AT_ONCE = 16
_WRITER = "writer"
_TIMES = 20
# ENOENT, or its folder was there when it should be made and gone when looked at; no bucket says either
_NO_FOLDER = ("No such file or directory", "Unable to create dir")


class StoreUnavailableError(OSError):
    """The store cannot be reached, denies access, or misbehaves; the state of the object is unknown."""


class Store:
    """Objects by key. Writes are atomic; ``create`` never overwrites.

    Every method raises :class:`StoreUnavailableError` when the store is away. An object may have been written then
    or not; writing it again is safe.
    """

    def __init__(self, place: Path | Bucket) -> None:
        """``place``: a folder, which is made if need be, or a bucket, which must be there."""
        self._folder = None if isinstance(place, Bucket) else place.resolve()
        self._files = threading.BoundedSemaphore(_FILES_AT_ONCE)
        self._store: ObjectStore
        self._blobs: ObjectStore
        if isinstance(place, Bucket):
            self._store, self._blobs = place
        else:
            place.mkdir(parents=True, exist_ok=True)
            # without the clean-up a folder outlives its last object, which it does not in a bucket
            self._store = self._blobs = LocalStore(prefix=self._folder, mkdir=True, automatic_cleanup=True)

    @property
    def _is_bucket(self) -> bool:
        return self._folder is None

    def _path(self, key: str) -> Path | None:
        """Returns the object's file, if the store is a folder."""
        return self._folder and self._folder / self.check(key)

    @staticmethod
    def check(key: str) -> str:
        """Returns the key if it is valid.

        Raises:
            ValueError: it has an empty, hidden or parent segment, or an unusual character.
        """
        if not _KEY.fullmatch(key) or len(key) > 512:
            raise ValueError(f"not a key of the store: {key!r}")
        return key

    def read(self, key: str) -> bytes:
        """Returns the whole object; FileNotFoundError if there is none."""
        with _reached():
            if path := self._path(key):
                return folder_backend.read(path)
            return bytes(obstore.get(self._store, self.check(key)).bytes())

    def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Returns the whole objects, None for each missing one; a bucket is read in parallel."""
        if not self._is_bucket or len(keys) < 2:  # a file is read faster than a thread is asked to
            return [self._read_or_none(key) for key in keys]
        with ThreadPoolExecutor(min(_READS_AT_ONCE, len(keys))) as pool:
            return list(pool.map(self._read_or_none, keys))

    def _read_or_none(self, key: str) -> bytes | None:
        try:
            return self.read(key)
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        """Writes or replaces a small object."""
        with _reached(writing=True):
            if path := self._path(key):
                _placed(lambda: folder_backend.write(path, data))
            else:
                obstore.put(self._store, self.check(key), data, use_multipart=False)

    def create(self, key: str, data: bytes) -> bool:
        """Writes a small object if there is none; returns False if there was one."""
        try:
            with _reached(writing=True):
                if path := self._path(key):
                    _placed(lambda: folder_backend.create(path, data))
                    return True
                return self._create_in_bucket(key, data)
        except FileExistsError:
            return False

    def _create_in_bucket(self, key: str, data: bytes) -> bool:
        # a bucket that wrote the object and whose answer got lost refuses the repetition: the mark tells it apart
        writer = secrets.token_hex(8)
        try:
            obstore.put(
                self._store,
                self.check(key),
                data,
                mode="create",
                use_multipart=False,
                attributes={_WRITER: writer},
            )
        except AlreadyExistsError:
            return self._writer(key) == writer
        return True

    def _writer(self, key: str) -> str | None:
        try:
            with _reached():
                return obstore.get(self._store, key, options={"head": True}).attributes.get(_WRITER)
        except FileNotFoundError:
            return None

    def take_file(self, key: str, path: Path) -> None:
        """Stores a file as an object, replacing any other; the file belongs to the store then, and must not change.

        In a folder on the same disk it gets a second name. Else it is copied in chunks, two files at one time; others
        wait for them.
        """
        if (target := self._path(key)) and _linked(path, target):
            return
        size, count = (_BUCKET_PART, _PARTS_AT_ONCE) if self._is_bucket else (_CHUNK, 1)
        with self._files, _reached(writing=True):
            _placed(lambda: obstore.put(self._blobs, self.check(key), path, chunk_size=size, max_concurrency=count))

    def size(self, key: str) -> int | None:
        """Returns the size of the object in bytes, or None if there is none."""
        try:
            with _reached():
                if path := self._path(key):
                    return folder_backend.size(path)
                return int(obstore.head(self._store, self.check(key))["size"])
        except FileNotFoundError:
            return None

    def written(self, key: str) -> datetime | None:
        """Returns the object's last modification time, or None if there is none."""
        try:
            with _reached():
                if path := self._path(key):
                    return folder_backend.written(path)
                return obstore.head(self._store, self.check(key))["last_modified"]
        except FileNotFoundError:
            return None

    def exists(self, key: str) -> bool:
        """Returns whether the object exists."""
        return self.size(key) is not None

    def stream(self, key: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Returns bytes ``[begin, end)`` of the object in chunks; FileNotFoundError if there is none.

        The object is opened before this returns, so that the caller can still answer with an error.
        """
        options: GetOptions = {}
        if end is not None:
            options["range"] = (begin, end)
        elif begin:
            options["range"] = {"offset": begin}
        with _reached():
            return _chunks(obstore.get(self._blobs, self.check(key), options=options))

    def read_range(self, key: str, begin: int, end: int) -> bytes:
        """Returns bytes ``[begin, end)`` of the object, in one request; FileNotFoundError if there is none."""
        with _reached():
            return bytes(obstore.get_range(self._store, self.check(key), start=begin, end=end))

    def fetch(self, key: str, path: Path) -> None:
        """Copies the object into a local file; FileNotFoundError if there is none."""
        chunks = self.stream(key)
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the keys under ``prefix`` (a folder) and their sizes, sorted by key."""
        with _reached(writing=True):
            found = obstore.list(self._store, prefix=self.check(prefix)).collect()
        return dict(sorted((item["path"], int(item["size"])) for item in found))

    def modified(self, prefix: str) -> dict[str, datetime]:
        """Returns the keys under ``prefix`` (a folder) and their modification times."""
        with _reached(writing=True):
            found = obstore.list(self._store, prefix=self.check(prefix)).collect()
        return {item["path"]: item["last_modified"] for item in found}

    def keys(self, prefix: str) -> Iterator[str]:
        """Yields the keys under ``prefix`` (a folder) in any order, lazily."""
        with _reached(writing=True):
            for some in obstore.list(self._store, prefix=self.check(prefix)):
                yield from (item["path"] for item in some)

    def folders(self, prefix: str) -> list[str]:
        """Returns the names of the folders directly under ``prefix``, sorted."""
        with _reached(writing=True):
            found = obstore.list_with_delimiter(self._store, prefix=self.check(prefix))["common_prefixes"]
        return sorted(path.rsplit("/", 1)[-1] for path in found)

    def folders_after(self, prefix: str, name: str = "") -> Iterator[str]:
        """Yields the names of the folders directly under ``prefix`` after ``name``, sorted; of a bucket lazily."""
        with _reached(writing=True):
            if path := self._path(prefix):
                yield from sorted(each for each in folder_backend.names(path) if each > name)
                return
            last = ""
            after = f"{self.check(prefix)}/{name}/~" if name else None  # after all that any key may have in it
            for some in obstore.list(self._store, prefix=prefix, offset=after):
                for item in some:
                    found = item["path"].removeprefix(f"{prefix}/").partition("/")[0]
                    if found != last:
                        yield (last := found)

    def delete(self, key: str) -> None:
        """Deletes the object if it exists."""
        with contextlib.suppress(FileNotFoundError), _reached():
            obstore.delete(self._store, self.check(key))

    def delete_all(self, keys: Iterable[str]) -> None:
        """Deletes these objects; from a bucket in parallel."""
        keys = list(keys)
        if not self._is_bucket or len(keys) < 2:
            for key in keys:
                self.delete(key)
            return
        with ThreadPoolExecutor(min(_READS_AT_ONCE, len(keys))) as pool:
            list(pool.map(self.delete, keys))

    def probe(self) -> None:
        """Checks that the store writes, reads, and creates no object twice.

        Raises:
            StoreUnavailableError: one of these fails.
        """
        self.write("probe", b"ok")
        if self.create("probe", b"twice") or self.read("probe") != b"ok":
            raise StoreUnavailableError("the store overwrites what exists: the bucket lacks If-None-Match")


def _placed(put: Callable[[], object]) -> None:
    """Calls ``put``, and again if the object's folder was just removed with its last object."""
    for _ in range(_TIMES):
        try:
            put()
        except (FileNotFoundError, GenericError) as error:
            if not any(sign in str(error) for sign in _NO_FOLDER):
                raise
        else:
            return
    put()


def _linked(path: Path, target: Path) -> bool:
    """Links the file as the object; returns False where that is impossible, as on another disk."""
    try:
        _placed(lambda: folder_backend.link(path, target))
    except OSError:
        return False
    return True


def _chunks(opened: "GetResult") -> Iterator[bytes]:
    with _reached():
        for chunk in opened.stream(min_chunk_size=_CHUNK):
            yield bytes(chunk)


@contextlib.contextmanager
def _reached(*, writing: bool = False) -> Iterator[None]:
    """Translates exceptions of the backend and the system.

    FileExistsError passes, and so does FileNotFoundError, but where it cannot mean that an object is missing: while
    ``writing`` or listing, or if it is the bucket that is not there.
    """
    try:
        yield
    except FileExistsError:
        raise
    except FileNotFoundError as error:
        if writing or "NoSuchBucket" in str(error):
            raise StoreUnavailableError(_brief(error)) from error
        raise
    except (BaseError, OSError) as error:
        raise StoreUnavailableError(_brief(error)) from error


def _brief(error: Exception) -> str:
    """Returns the first line of an error: the backend's details follow over many lines."""
    return str(error).split("\n", 1)[0]


_log = logging.getLogger(__name__)
_RETRY_SECONDS = 60.0
_LONGEST_PAUSE = 5.0

Result = TypeVar("Result")


def retry_while_away(action: Callable[[], Result]) -> Result:
    """Calls ``action`` until the store is there, for a minute at most, and returns its result.

    ``action`` must be idempotent.

    Raises:
        StoreUnavailableError: the store is still away.
    """
    deadline = time.monotonic() + _RETRY_SECONDS
    pause = 0.1
    while True:
        try:
            return action()
        except StoreUnavailableError as error:
            if time.monotonic() + pause > deadline:
                raise
            _log.warning("the store is away: %s", error)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
