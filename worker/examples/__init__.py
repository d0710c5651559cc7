"""Examples that come with Cyclops: a model, a program, tensors that fit them, and an accelerator.

Every owner may read and use them without an upload, under fixed ids: the SHA-256 of the
files beside this one, which ``make examples`` writes.
"""

import functools
import hashlib
from pathlib import Path
from typing import Literal, NamedTuple

from accel.catalog.load_accelerator import accelerator_id, canonical, parse_accelerator
from worker.storage.identifiers import ObjectKind

_FOLDER = Path(__file__).parent
FileKind = Literal["models", "programs", "tensors"]
FILES: dict[FileKind, str] = {"models": "model.onnx", "programs": "program.zip", "tensors": "tensors.npz"}
ACCELERATOR = "accelerator.json"
INFO = "info.json"


class Example(NamedTuple):
    """An example: the id, the file, and, as JSON, the document that an upload of it would have."""

    id: str
    path: Path
    info: bytes


@functools.cache
def example(kind: FileKind) -> Example:
    """Returns the example of a kind."""
    path = _FOLDER / FILES[kind]
    data = path.read_bytes()
    return Example(hashlib.sha256(data).hexdigest(), path, (_FOLDER / f"{kind}.{INFO}").read_bytes())


@functools.cache
def example_accelerator() -> Example:
    """Returns the example of an accelerator, in the short form; ``info`` is the whole document."""
    path = _FOLDER / ACCELERATOR
    accelerator = parse_accelerator(path.read_bytes())
    return Example(accelerator_id(accelerator), path, canonical(accelerator))


def example_id(kind: ObjectKind) -> str | None:
    """Returns the id of the example of a kind; None for jobs."""
    if kind == "jobs":
        return None
    return example_accelerator().id if kind == "accelerators" else example(kind).id
