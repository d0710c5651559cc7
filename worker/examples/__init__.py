"""Examples that come with Cyclops: models, a program, tensors that fit it and one of them, and an accelerator.

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
NETWORKS = ("resnet8", "keyword_spotting", "attention")  # of ``examples/networks.py``, each a file of its name
ACCELERATOR = "accelerator.json"
INFO = "info.json"
_TITLES = {
    "resnet8": ("ResNet-8", "image classification of MLPerf Tiny: 12.5 M multiply-accumulates"),
    "keyword_spotting": ("Keyword spotting", "DS-CNN of MLPerf Tiny: depthwise convolutions, 2.7 M"),
    "attention": ("One attention block", "32 tokens, 4 heads: projections on the accelerator, softmax on the host"),
    "models": ("One convolution", "8 to 16 channels, 8 by 8 pixels, quantised: done in a second"),
}


class Example(NamedTuple):
    """An example.

    Attributes:
        id: its id.
        path: its file.
        info: as JSON, the document that an upload of it would have.
        title: what it is called where its owner has no label for it; None if it has no name.
        summary: what it is.
    """

    id: str
    path: Path
    info: bytes
    title: str | None = None
    summary: str = ""


@functools.cache
def examples(kind: FileKind) -> tuple[Example, ...]:
    """Returns the examples of a kind; the last is the one that forms of the documentation have."""
    networks = tuple(_example(_FOLDER / f"{name}.onnx", name) for name in NETWORKS) if kind == "models" else ()
    return (*networks, _example(_FOLDER / FILES[kind], kind))


def _example(path: Path, name: str) -> Example:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Example(digest, path, (_FOLDER / f"{name}.{INFO}").read_bytes(), *_TITLES.get(name, ()))


def example(kind: FileKind) -> Example:
    """Returns the example of a kind that forms of the documentation have."""
    return examples(kind)[-1]


@functools.cache
def _by_id(kind: FileKind) -> dict[str, Example]:
    return {each.id: each for each in examples(kind)}


def find_example(kind: FileKind, digest: str) -> Example | None:
    """Returns the example of a kind that has this id; None if none has."""
    return _by_id(kind).get(digest)


@functools.cache
def example_accelerator() -> Example:
    """Returns the example of an accelerator, in the short form; ``info`` is the whole document."""
    path = _FOLDER / ACCELERATOR
    accelerator = parse_accelerator(path.read_bytes())
    return Example(accelerator_id(accelerator), path, canonical(accelerator))


def example_id(kind: ObjectKind) -> str | None:
    """Returns the id of the example of a kind that forms of the documentation have; None for jobs."""
    if kind == "jobs":
        return None
    return example_accelerator().id if kind == "accelerators" else example(kind).id


def is_example(kind: ObjectKind, digest: str) -> bool:
    """Returns whether an example of this kind has this id."""
    if kind == "jobs":
        return False
    return digest == example_accelerator().id if kind == "accelerators" else find_example(kind, digest) is not None
