"""Uploaded programs: whatever form they come in, one Program file is kept."""

import hashlib
import shutil
import zipfile
from collections import Counter
from pathlib import Path

from accel.errors import InvalidProgram
from accel.names import member_fault, shown
from service.upload import Part
from worker.inspection.inspector import Inspector
from worker.records.uploads import ProgramInfo

_DOCUMENT = "program.json"


def canonical(parts: list[Part], directory: Path, inspector: Inspector) -> tuple[Path, ProgramInfo]:
    """The Program file of an upload, and what is in it.

    The file is written anew from what was read, so that the same program has one id however it was packed.

    Args:
        parts: a Program file or a zip of parts alone, or the parts themselves, ``program.json`` among them.
        directory: where the file is made.
        inspector: opens it.

    Raises:
        InvalidProgram: the parts are none of a program.
        LimitError: opening it took more than it may.
        RefusedError: it is no program, unpacks to too much, contradicts itself, or names an accelerator that cannot be.
    """
    path, contents = inspector.program(_one_file(parts, directory), directory)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return path, ProgramInfo(id=digest, bytes=path.stat().st_size, **contents.model_dump())


def _one_file(parts: list[Part], directory: Path) -> Path:
    """The file that holds the program, made of the form's parts if they hold it together."""
    by_part = [(part.name, part) for part in parts]
    by_file = [(part.filename, part) for part in parts if part.filename is not None]
    for named in (by_part, by_file):
        if any(name == _DOCUMENT for name, _ in named):
            return _zip_of([(str(name), part.path) for name, part in named], directory / "parts.zip")
    files = [part for _, part in by_file] or parts
    if len(files) > 1:
        raise InvalidProgram(f"the form has {len(files)} files, and none is called {_DOCUMENT}", field=_DOCUMENT)
    return files[0].path


def _zip_of(named: list[tuple[str, Path]], path: Path) -> Path:
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
