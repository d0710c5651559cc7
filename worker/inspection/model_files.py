"""Uploaded models of one file, or of several with external data, for confined processes."""

import contextlib
import shutil
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from accel.errors import InvalidModel, ModelTooLarge
from accel.frontend.onnx_model.model_limits import LIMITS
from accel.frontend.read.external_files import OpenData, single_file
from accel.frontend.read.model_info import ModelContents
from accel.frontend.read.model_inspection import inspect_upload
from worker.config.settings import Settings
from worker.execution.zip_limits import check_zip_directory
from worker.inspection.task_arguments import ModelFiles, NamedFile

# what came by name, each to be brought into a local file
_Files = dict[str, Callable[[], Path]]

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # what a zip begins with, and no ONNX file
_SUFFIX = ".onnx"
_ENCRYPTED = 1
_SHOWN = 8  # names in a message
_LENGTH = 128  # characters of a name in a message
_DAMAGE = (OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error)


def model_of_files(given: ModelFiles, settings: Settings) -> ModelContents:
    """Returns the contents of a model, and writes it to ``given.model`` as one file, unless it came as one.

    Raises:
        CyclopsError: the files are no model, are several, lack what one keeps in others, or unpack to too much.
    """
    limits = replace(LIMITS, nodes=settings.max_model_nodes)
    with _files(given, settings.max_model_bytes) as files:
        name = _model_among(list(files))
        path = files[name]()
        data = path.read_bytes()
        whole = single_file(data, _among(files, given.files, PurePosixPath(name).parent), limits)
    if whole is not data or path != given.files[0].path:
        given.model.write_bytes(whole)
    del data
    return inspect_upload(whole, limits)


@contextlib.contextmanager
def _files(given: ModelFiles, limit: int) -> Iterator[_Files]:
    """Yields the uploaded files by name: the files of a form, a single file, or the members of a zip."""
    if len(given.files) == 1 and _is_zip(given.files[0].path):
        with _open_zip(given.files[0].path) as archive:
            yield _members(archive, limit, given.model.parent)
        return
    _check_different(file.name for file in given.files)
    yield {file.name: partial(_itself, file.path) for file in given.files}


def _itself(path: Path) -> Path:
    return path


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ZIP[0])) in _ZIP


@contextlib.contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    with path.open("rb") as file:
        try:
            check_zip_directory(file)
            archive = zipfile.ZipFile(file)
        except _DAMAGE as error:
            raise InvalidModel(f"the zip cannot be read: {error}", field="body") from error
        with archive:
            yield archive


def _members(archive: zipfile.ZipFile, limit: int, folder: Path) -> _Files:
    """Returns the zip's files, without those that macOS adds; each is unpacked into ``folder`` on demand."""
    infos = [info for info in archive.infolist() if not info.is_dir() and not _is_of_macos(info.filename)]
    _check_different(info.filename for info in infos)
    if not infos:
        raise InvalidModel("the zip has no files", field="body")
    total = sum(info.file_size for info in infos)
    if total > limit:
        raise ModelTooLarge(f"the zip unpacks to {total} bytes; the limit is {limit}", field="body")
    return {
        info.filename: partial(_unpack, archive, info, folder / f"member-{index}") for index, info in enumerate(infos)
    }


def _is_of_macos(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parts[:1] == ("__MACOSX",) or path.name.startswith("._") or path.name == ".DS_Store"


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Path:
    """Unpacks a member into a file; ``zipfile`` yields no more of it than the zip's directory says."""
    if stat.S_ISLNK(info.external_attr >> 16):
        raise InvalidModel(f"{info.filename[:_LENGTH]!r} in the zip is a link; pack the file itself", field="body")
    if info.flag_bits & _ENCRYPTED:
        raise InvalidModel(f"{info.filename[:_LENGTH]!r} in the zip is encrypted", field="body")
    try:
        with archive.open(info) as member, path.open("wb") as file:
            shutil.copyfileobj(member, file)
    except _DAMAGE as error:
        raise InvalidModel(f"{info.filename[:_LENGTH]!r} cannot be unpacked: {error}", field="body") from error
    return path


def _check_different(names: Iterable[str]) -> None:
    for name, times in Counter(names).most_common(1):
        if times > 1:
            raise InvalidModel(f"{times} files are called {name[:_LENGTH]!r}", field="body")


def _model_among(names: Sequence[str]) -> str:
    """Returns the name of the only file, or the only name that is a model's."""
    found = [name for name in names if name.lower().endswith(_SUFFIX)]
    if len(names) == 1 or len(found) == 1:
        return (found or names)[0]
    if found:
        raise InvalidModel(f"these are {len(found)} models, {_listed(found)}; send one, with its data", field="body")
    raise InvalidModel(f"none of {_listed(names)} is a model: its name must end in {_SUFFIX}", field="body")


def _among(files: _Files, parts: Sequence[NamedFile], folder: PurePosixPath) -> OpenData:
    """Returns a function that opens the external data of the model in ``folder``, by either name of a form's part."""
    known = {PurePosixPath(part.part): part.name for part in parts if part.part}
    known |= {PurePosixPath(name): name for name in files}

    def open_data(path: PurePosixPath) -> BinaryIO:
        name = known.get(folder / path)
        if name is None or name not in files:
            came = "only the model itself came" if len(files) == 1 else f"what came is {_listed(list(files))}"
            raise FileNotFoundError(f"{came}: send both in a zip, or as files of one multipart form")
        return files[name]().open("rb")

    return open_data


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(name[:_LENGTH]) for name in names[:_SHOWN]) + more
