"""A model and what it keeps in other files, as a zip or a form brings them."""

import io
import stat
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from accel.errors import CyclopsError, ExternalData, InvalidModel, ModelTooLarge
from accel.frontend.read.external_files import folder_data, single_file
from tests.helpers.models.external_models import FILE, in_a_file_each, in_one_file, two_weights, write
from worker.config.settings import Settings
from worker.inspection.model_files import model_of_files
from worker.inspection.task_arguments import ModelFiles, NamedFile

MODEL, DATA = in_one_file(two_weights())
Entry = tuple[str, bytes]


def zipped(entries: Iterable[Entry], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return file.getvalue()


def opened(tmp_path: Path, files: Iterable[Entry], **settings: int) -> bytes | None:
    """The file that is made of what came, by names; None if none is."""
    given = []
    for index, (name, data) in enumerate(files):
        (tmp_path / f"{index}").write_bytes(data)
        given.append(NamedFile(path=tmp_path / f"{index}", name=name))
    (tmp_path / "made").mkdir()
    made = tmp_path / "made/model.onnx"
    info = model_of_files(ModelFiles(files=given, model=made), Settings(**settings))
    assert info.parameters == 56
    return made.read_bytes() if made.exists() else None


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = write(tmp_path_factory.mktemp("single"), MODEL, {FILE: DATA})
    return single_file(MODEL, folder_data(path.parent))


def apart(folder: str = "") -> list[Entry]:
    model, files = in_a_file_each(two_weights(), folder)
    return [("m.ONNX", model), *files.items()]


FORMS: dict[str, list[Entry]] = {
    "a zip": [("", zipped([("f.onnx", MODEL), (FILE, DATA)]))],
    "a zip that is not compressed": [("a.zip", zipped([(FILE, DATA), ("f.onnx", MODEL)], zipfile.ZIP_STORED))],
    "a folder in a zip": [("", zipped([("a/", b""), ("a/b/f.onnx", MODEL), (f"a/b/{FILE}", DATA)]))],
    "a zip of many files": [("", zipped(apart("weights/")))],
    "a zip with more than it takes": [
        ("", zipped([("f.onnx", MODEL), (FILE, DATA), ("README", b"hello"), ("../x", b""), ("/etc/passwd", b"root")]))
    ],
    "a zip of macOS": [
        ("", zipped([("f.onnx", MODEL), (FILE, DATA), ("__MACOSX/._f.onnx", b"x"), ("._g.onnx", b"x")]))
    ],
    "a form": [("f.onnx", MODEL), (FILE, DATA)],
    "a form, the data first": [(FILE, DATA), ("f.onnx", MODEL)],
    "a form of many files": apart(),
    "a form of paths": [("a/f.onnx", MODEL), (f"a/{FILE}", DATA)],
}


@pytest.mark.parametrize("form", FORMS)
def test_however_it_comes_it_is_one_model(tmp_path: Path, single: bytes, form: str) -> None:
    assert opened(tmp_path, FORMS[form]) == single


def test_a_part_of_a_form_is_known_by_its_name_too(tmp_path: Path, single: bytes) -> None:
    model, data = in_one_file(two_weights(), f"weights/{FILE}")
    (tmp_path / "model").write_bytes(model)
    (tmp_path / "data").write_bytes(data)
    files = [
        NamedFile(path=tmp_path / "model", name="f.onnx", part="file"),
        NamedFile(path=tmp_path / "data", name=FILE, part=f"weights/{FILE}"),
    ]
    model_of_files(ModelFiles(files=files, model=tmp_path / "made"), Settings())
    assert (tmp_path / "made").read_bytes() == single


def test_one_file_stays_as_it_is(tmp_path: Path) -> None:
    assert opened(tmp_path, [("whatever", two_weights().SerializeToString())]) is None


def test_one_file_in_a_zip_is_what_it_was(tmp_path: Path) -> None:
    data = two_weights().SerializeToString()
    assert opened(tmp_path, [("", zipped([("whatever", data)]))]) == data


def linked() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("f.onnx", MODEL)
        link = zipfile.ZipInfo(FILE)
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, b"/etc/passwd")
    return file.getvalue()


def twice() -> bytes:
    """One name of two, of the same length, made the other."""
    packed = zipped([("f.onnx", MODEL), (FILE, DATA), (f"g{FILE[1:]}", DATA)])
    return packed.replace(b"g.onnx.data", b"f.onnx.data")


def damaged() -> bytes:
    packed = zipped([("f.onnx", MODEL), (FILE, DATA)], zipfile.ZIP_STORED)
    return packed.replace(DATA[:16], bytes(16))


def leading_out(location: str) -> list[Entry]:
    model, data = in_one_file(two_weights(), location)
    return [("", zipped([("sub/f.onnx", model), (location, data), (FILE, data)]))]


FAULTS: dict[str, tuple[list[Entry], type[CyclopsError], str]] = {
    "the model alone": ([("", MODEL)], ExternalData, r"'f.onnx.data'.*only the model itself came: send both in a zip"),
    "another file": ([("f.onnx", MODEL), ("g", DATA)], ExternalData, r"what came is 'f.onnx', 'g': send both in a zip"),
    "data outside of the model's folder": (
        [("", zipped([("a/f.onnx", MODEL), (FILE, DATA)]))],
        ExternalData,
        "what came is 'a/f.onnx'",
    ),
    "a path that leads out": (leading_out("../f.onnx.data"), ExternalData, "must be a file in the model's own folder"),
    "an absolute path": (leading_out("/etc/passwd"), ExternalData, "must be a file in the model's own folder"),
    "short data": ([("f.onnx", MODEL), (FILE, DATA[:-1])], ExternalData, "which has 235"),
    "two models": (
        [("", zipped([("f.onnx", MODEL), ("g.onnx", MODEL)]))],
        InvalidModel,
        "'f.onnx', 'g.onnx'; send one",
    ),
    "two models in a form": ([("f.onnx", MODEL), ("g.onnx", MODEL)], InvalidModel, "send one"),
    "no model": ([("f", MODEL), (FILE, DATA)], InvalidModel, "must end in .onnx"),
    "a name twice": ([("", twice())], InvalidModel, "2 files are called 'f.onnx.data'"),
    "a name twice in a form": ([("f.onnx", MODEL), (FILE, DATA), (FILE, DATA)], InvalidModel, "2 files are called"),
    "a link": ([("", linked())], InvalidModel, "is a link"),
    "damaged data": ([("", damaged())], InvalidModel, "cannot be unpacked"),
    "half a zip": ([("", zipped([("f.onnx", MODEL)])[:-30])], InvalidModel, "cannot be read"),
    "an empty zip": ([("", zipped([]))], InvalidModel, "no files"),
    "a bomb": ([("", zipped([("f.onnx", MODEL), (FILE, bytes(1 << 21))]))], ModelTooLarge, "unpacks to 2.* 1048576"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_model_or_not_all_of_one_is_refused(tmp_path: Path, name: str) -> None:
    files, error, told = FAULTS[name]
    with pytest.raises(error, match=told) as caught:
        opened(tmp_path, files, max_model_bytes=1 << 20)
    assert type(caught.value) is error
    assert caught.value.field in {"body", "initializer:a", "node:constant"}
    assert not (tmp_path / "made/model.onnx").exists()
