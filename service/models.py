"""Uploaded models: whatever form they come in, one ONNX file is kept."""

from collections import Counter
from pathlib import Path

from accel.provenance import file_digest
from service.problems import ProblemError
from service.upload import Part
from worker.inspection.inspector import Inspector
from worker.inspection.task_arguments import NamedFile
from worker.records.uploads import Model


def canonical(parts: list[Part], directory: Path, inspector: Inspector) -> tuple[Path, Model]:
    """The ONNX file of an upload, and what is in it.

    A model that came as one file is kept as it came. One whose data came with it is written anew with all of them
    inside, so that it has one id however it was cut and packed.

    Args:
        parts: an ONNX file or a zip alone, or the files of a form.
        directory: where the file is made.
        inspector: opens it.

    Raises:
        ProblemError: there is no file.
        LimitError: opening it took more than it may.
        RefusedError: it is no model, or not all of one.
    """
    scratch = directory / "model"
    scratch.mkdir()
    path, info = inspector.model(_files(parts), scratch)
    return path, Model(id=file_digest(path), bytes=path.stat().st_size, **info.model_dump())


def _files(parts: list[Part]) -> list[NamedFile]:
    """The files among a form's parts, or the raw body."""
    found = [part for part in parts if part.filename or (part.filename is not None and part.path.stat().st_size)]
    if not found and [(part.name, part.filename) for part in parts] == [("", None)]:
        found = parts
    if not found:
        raise ProblemError("invalid-request", "the form has no file", field="body")
    if not any(part.path.stat().st_size for part in found):
        raise ProblemError("invalid-request", "the file is empty", field="body")
    times = Counter(part.name for part in found)
    return [
        NamedFile(path=part.path, name=part.filename or part.name, part=part.name if times[part.name] == 1 else "")
        for part in found
    ]
