import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import InvalidTensors, TensorsTooLarge
from accel.frontend.read.model_info import TensorInfo
from worker.execution.tensor_archives import NpzArchive, as_samples, check_fit

LIMITS = {"max_bytes": 1 << 20, "max_arrays": 4}
X = TensorInfo(name="x", dtype="float32", shape=(1, 3, 4, 4))


def npz(**arrays: np.ndarray) -> io.BytesIO:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    file.seek(0)
    return file


def archive(**members: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members.items():
            target.writestr(f"{name}.npy", data)
    file.seek(0)
    return file


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_reads_arrays() -> None:
    arrays = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.array(3, np.int8)}
    opened = NpzArchive(npz(**arrays), **LIMITS)
    opened.check_data()
    assert opened.tensors == [
        TensorInfo(name="x", dtype="float32", shape=(2, 3)),
        TensorInfo(name="y", dtype="int8", shape=()),
    ]
    for name, array in opened.load().items():
        np.testing.assert_array_equal(array, arrays[name])


def huge_header(shape: str) -> bytes:
    return header_of(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117))


def header_of(text: str) -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


BAD = {
    "not a zip": (b"hello", "not an npz"),
    "empty": (archive().getvalue(), "no arrays"),
    "pickled objects": (archive(x=npy(np.array([{}], dtype=object))).getvalue(), "object"),
    "strings": (archive(x=npy(np.array(["a"]))).getvalue(), "element type"),
    "structured": (archive(x=npy(np.zeros(2, dtype=[("a", "i4")]))).getvalue(), "element type"),
    "a text file": (archive(x=b"hello").getvalue(), "cannot be read"),
    "a shape bomb": (archive(x=huge_header("(1048576, 1048576)")).getvalue(), "declares shape"),
    "a negative shape": (archive(x=huge_header("(-1, -1)")).getvalue(), "declares shape"),
    "a zip bomb": (archive(x=npy(np.zeros(1 << 21, np.int8))).getvalue(), "unpacks to"),
    "a shape of booleans": (archive(x=huge_header("(True,)") + bytes(4)).getvalue(), "no array has"),
    "a shape beyond addresses": (archive(x=huge_header("(0, 10000000000000000000000)")).getvalue(), "no array has"),
    "a shape of too many axes": (archive(x=huge_header(f"({'1, ' * 40})") + bytes(4)).getvalue(), "no array has"),
    "an open bracket": (archive(x=huge_header("(((")).getvalue(), "cannot be read"),
    "a broken indentation": (archive(x=header_of("  1\n x\n  y")).getvalue(), "cannot be read"),
    "a key that is a list": (archive(x=header_of("{[]: 1}")).getvalue(), "cannot be read"),
    "too many": (npz(**{f"x{i}": np.zeros(1) for i in range(5)}).getvalue(), "at most 4"),
    "truncated": (npz(x=np.arange(100)).getvalue()[:-30], "not an npz"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str) -> None:
    data, message = BAD[name]
    with pytest.raises(InvalidTensors, match=message) as caught:
        NpzArchive(io.BytesIO(data), **LIMITS).check_data()
    assert caught.value.field in {"tensors", "x"}
    assert (type(caught.value) is TensorsTooLarge) == (name in {"a zip bomb", "too many"})


@pytest.mark.parametrize("name", ["../../y", "//etc/x", "..\\y", "C:\\x", "a\0b", "a\nb", "", "x" * 3000])
def test_names_that_could_be_paths_are_refused(name: str) -> None:
    data = archive(**{name.replace("\0", "@"): npy(np.zeros(1))}).getvalue().replace(b"@", b"\0")
    with pytest.raises(InvalidTensors, match="cannot be called") as caught:
        NpzArchive(io.BytesIO(data), **LIMITS)
    assert caught.value.detail.isprintable()
    assert str(caught.value.field).isprintable()


def test_names_that_exporters_write_are_taken() -> None:
    names = ["serving_default_x:0", "/fc/Gemm_output_0", "..x", "größe"]
    assert [
        tensor.name for tensor in NpzArchive(npz(**{name: np.zeros(1) for name in names}), **LIMITS).tensors
    ] == names


def test_damaged_data() -> None:
    data = bytearray(npz(x=np.random.default_rng(0).integers(0, 255, 5000, np.uint8)).getvalue())
    data[2000] ^= 0xFF
    with pytest.raises(InvalidTensors, match="damaged"):
        NpzArchive(io.BytesIO(bytes(data)), **LIMITS).check_data()


def packed(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as target:
        target.writestr("x.npy", npy(np.arange(40, dtype=np.int32)))
        target.writestr("y.npy", npy(np.ones((2, 2), np.float32)))
    return file.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@settings(max_examples=50)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(method: int, data: st.DataObject) -> None:
    file = bytearray(packed(method))
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    try:
        opened = NpzArchive(io.BytesIO(bytes(file)), **LIMITS)
        opened.check_data()
        arrays = opened.load()
    except InvalidTensors:
        return
    assert sum(array.nbytes for array in arrays.values()) <= LIMITS["max_bytes"]


def tensor(shape: tuple[int, ...], dtype: str = "float32", name: str = "x") -> TensorInfo:
    return TensorInfo(name=name, dtype=dtype, shape=shape)


def test_inputs_fit() -> None:
    check_fit([tensor((1, 3, 4, 4))], [X], samples=False, field="options.inputs")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the inputs are"),
        ([tensor((1, 3, 4, 4), name="z")], "the inputs are"),
        ([tensor((1, 3, 4, 4)), tensor((1,), name="z")], "the inputs are"),
        ([tensor((1, 3, 4, 4), "float64")], "takes float32"),
        ([tensor((1, 3, 4, 5))], "takes"),
        ([tensor((2, 3, 4, 4))], "takes"),
    ],
)
def test_inputs_that_do_not_fit(given: list[TensorInfo], message: str) -> None:
    with pytest.raises(InvalidTensors, match=message) as caught:
        check_fit(given, [X], samples=False, field="options.inputs")
    assert caught.value.field == "options.inputs"


def test_some_inputs_may_be_missing() -> None:
    two = [X, tensor((2,), name="y")]
    check_fit([tensor((2,), name="y")], two, partial=True, field="options.inputs")
    for wrong in (tensor((2,), name="z"), tensor((3,), name="y")):
        with pytest.raises(InvalidTensors):
            check_fit([wrong], two, partial=True, field="options.inputs")


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (7, 3, 4, 4), (7, 1, 3, 4, 4)])
def test_calibration_may_hold_samples(shape: tuple[int, ...]) -> None:
    check_fit([tensor(shape)], [X], samples=True, field="options.calibration")
    stacked = as_samples({"x": np.zeros(shape, np.float32)}, [X])["x"]
    assert stacked.shape[1:] == X.shape


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (0, 1, 3, 4, 4), (3, 4, 4), (2, 2, 3, 4, 4), ()])
def test_calibration_that_does_not_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidTensors, match="samples of it"):
        check_fit([tensor(shape)], [X], samples=True, field="options.calibration")
