"""Accelerators by their ids: the presets, by their names, and uploaded documents, by the SHA-256 of what they say."""

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

from accel.accelerator.document import Accelerator
from accel.catalog import accelerator_id, canonical, load_accelerator, parse_accelerator, preset_names
from worker.store import Store

_ID = re.compile(r"[0-9a-f]{64}")
_FOLDER = "accelerators"


class Brief(NamedTuple):
    """An accelerator in a listing."""

    title: str
    family: str


class Accelerators:
    """The presets and the uploaded documents."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._presets: dict[str, Brief] = {}

    def add(self, accelerator: Accelerator) -> str:
        """Keep a document and give its id; the same document again changes nothing."""
        digest = accelerator_id(accelerator)
        self._store.create(_key(digest), canonical(accelerator))
        return digest

    def ids(self) -> list[str]:
        """All ids: the presets' names first, then those of uploaded documents, each part sorted."""
        return [*preset_names(), *(name for name in self._store.folders(_FOLDER) if _ID.fullmatch(name))]

    def known(self, name_or_id: str) -> bool:
        """Whether there is such an accelerator."""
        if _ID.fullmatch(name_or_id):
            return self._store.exists(_key(name_or_id))
        return name_or_id in preset_names()

    def get(self, name_or_id: str) -> Accelerator:
        """The accelerator; KeyError if there is none of this name or id.

        Raises:
            OSError: the stored document is not the one that was uploaded.
        """
        if not self.known(name_or_id):
            raise KeyError(name_or_id)
        return parse_accelerator(self._bytes(name_or_id)) if _ID.fullmatch(name_or_id) else load_accelerator(name_or_id)

    def brief(self, name_or_id: str) -> Brief:
        """What a listing says of it; KeyError if there is none of this name or id."""
        if not self.known(name_or_id):
            raise KeyError(name_or_id)
        if _ID.fullmatch(name_or_id):
            document = json.loads(self._bytes(name_or_id))
            return Brief(str(document["title"]), str(document["family"]))
        if name_or_id not in self._presets:  # they do not change, and checking one takes a while
            preset = load_accelerator(name_or_id)
            self._presets[name_or_id] = Brief(preset.title, preset.family)
        return self._presets[name_or_id]

    def fetch(self, name_or_id: str, path: Path) -> str:
        """What :func:`accel.catalog.load_accelerator` takes: a preset's name, or ``path`` with the document written.

        ``path`` must end in ``.json``. KeyError if there is none of this name or id.

        Raises:
            OSError: the stored document is not the one that was uploaded.
        """
        if not self.known(name_or_id):
            raise KeyError(name_or_id)
        if not _ID.fullmatch(name_or_id):
            return name_or_id
        path.write_bytes(self._bytes(name_or_id))
        return str(path)

    def _bytes(self, digest: str) -> bytes:
        data = self._store.read(_key(digest))
        if hashlib.sha256(data).hexdigest() != digest:
            raise OSError(f"the stored accelerator {digest} is damaged")
        return data


def _key(digest: str) -> str:
    return f"{_FOLDER}/{digest}/document.json"
