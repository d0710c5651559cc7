"""Canonical files of uploads: one ONNX, Program or npz file, whatever form the upload came in, and what is in it."""

import hashlib
import shutil
import zipfile
from collections import Counter
from pathlib import Path

from accel.errors import InvalidProgram
from accel.report.provenance import file_digest
from accel.util.safe_names import member_fault, shown
from service.http.problems import ProblemError
from service.uploads.receive import ReceivedFile, ReceivedPart
from worker.inspection.inspector import Inspector
from worker.inspection.task_arguments import NamedFile
from worker.records.uploads import Model, ProgramInfo, Tensors


def canonical_model(parts: list[ReceivedPart], inspector: Inspector) -> tuple[Path, Model]:
    """Returns the ONNX file of an upload, and what is in it.

    A model that came as one file is kept as it came. One whose data came with it is written anew with all of them
    inside, so that it has one id however it was cut and packed.

    Args:
        parts: an ONNX file or a zip alone, or the files of a form; the new file lies beside them.
        inspector: opens it.

    Raises:
        ProblemError: there is no file.
        LimitError: opening it took more than it may.
        RefusedError: it is no model, or not all of one.
    """
    scratch = parts[0].path.parent / "model"
    scratch.mkdir()
    path, info = inspector.model(_model_files(parts), scratch)
    return path, Model(id=file_digest(path), bytes=path.stat().st_size, **info.model_dump())


def _model_files(parts: list[ReceivedPart]) -> list[NamedFile]:
    """Returns the files among a form's parts, or the raw body."""
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


_DOCUMENT = "program.json"


def canonical_program(parts: list[ReceivedPart], inspector: Inspector) -> tuple[Path, ProgramInfo]:
    """Returns the Program file of an upload, and what is in it.

    The file is written anew from what was read, so that the same program has one id however it was packed.

    Args:
        parts: a Program file or a zip of parts alone, or the parts themselves, ``program.json`` among them;
            the new file lies beside them.
        inspector: opens it.

    Raises:
        InvalidProgram: the parts are none of a program.
        LimitError: opening it took more than it may.
        RefusedError: it is no program, unpacks to too much, contradicts itself, or names an accelerator that cannot be.
    """
    directory = parts[0].path.parent
    path, contents = inspector.program(_program_file(parts, directory), directory)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return path, ProgramInfo(id=digest, bytes=path.stat().st_size, **contents.model_dump())


def _program_file(parts: list[ReceivedPart], directory: Path) -> Path:
    """Returns the file that holds the program, made of the form's parts if it comes in parts."""
    by_part = [(part.name, part) for part in parts]
    by_file = [(part.filename, part) for part in parts if part.filename is not None]
    for named in (by_part, by_file):
        if any(name == _DOCUMENT for name, _ in named):
            return _zip_parts([(str(name), part.path) for name, part in named], directory / "parts.zip")
    files = [part for _, part in by_file] or parts
    if len(files) > 1:
        raise InvalidProgram(f"the form has {len(files)} files, and none is called {_DOCUMENT}", field=_DOCUMENT)
    return files[0].path


def _zip_parts(named: list[tuple[str, Path]], path: Path) -> Path:
    (name, times), *_ = Counter(name for name, _ in named).most_common(1)
    if times > 1:
        raise InvalidProgram(f"the form has {times} files called {name!r}", field=name)
    for name, _ in named:
        if fault := member_fault(name):
            raise InvalidProgram(f"no file of the form can be called '{shown(name)}': {fault}", field="body")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, source in named:
            with source.open("rb") as file, archive.open(name, "w", force_zip64=True) as entry:
                shutil.copyfileobj(file, entry)
    return path


def examined_tensors(upload: ReceivedFile, inspector: Inspector) -> tuple[Path, Tensors]:
    """Returns the npz file of an upload, as it came, and what is in it.

    Raises:
        LimitError: opening it took more than it may.
        RefusedError: it is no npz file, or one of its arrays cannot be used.
    """
    found = inspector.tensors(upload.path)
    return upload.path, Tensors(id=upload.sha256, bytes=upload.bytes, **found.model_dump())
