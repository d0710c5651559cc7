"""A model whose elements are in other files is the same model, and reads nothing but its own."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from accel.errors import CyclopsError, ExternalData, ModelTooLarge, UnsupportedType
from accel.frontend.onnx_model.model_limits import LIMITS
from accel.frontend.read.external_files import folder_data, single_file
from accel.frontend.read.model_inspection import inspect_model
from tests.helpers.models.external_models import (
    FILE,
    in_a_file_each,
    in_one_file,
    move_out,
    tensors_of,
    two_weights,
    write,
)
from tests.reference.host import draw_inputs, run_onnx


def whole(path: Path) -> bytes:
    return single_file(path.read_bytes(), folder_data(path.parent))


def test_a_model_in_one_file_is_that_file(tmp_path: Path) -> None:
    data = two_weights().SerializeToString()
    assert single_file(data, folder_data(tmp_path)) is data


def test_however_the_elements_are_kept_the_model_is_the_same(tmp_path: Path) -> None:
    model, data = in_one_file(two_weights())
    made = [whole(write(tmp_path, model, {FILE: data}))]
    model, data = in_one_file(two_weights(), "./weights//f.data", gap=7)
    made.append(whole(write(tmp_path, model, {"weights/f.data": data})))
    made += [whole(write(tmp_path, *in_a_file_each(two_weights(), folder))) for folder in ("", "deep/er/")]
    assert len(set(made)) == 1
    inputs = draw_inputs(two_weights())
    loaded = onnx.load_from_string(made[0])
    np.testing.assert_array_equal(run_onnx(loaded, inputs)[0], run_onnx(two_weights(), inputs)[0])
    assert inspect_model(made[0]) == inspect_model(two_weights().SerializeToString())


def test_tensors_may_share_bytes(tmp_path: Path) -> None:
    model = two_weights()
    a, b, _ = tensors_of(model)
    data = move_out(a, location=FILE, offset=0, length=128)
    move_out(b, location=FILE, offset="32")
    loaded = onnx.load_from_string(whole(write(tmp_path, model.SerializeToString(), {FILE: data})))
    assert [tensor.raw_data for tensor in loaded.graph.initializer] == [data, data[32:]]


Edit = Callable[[TensorProto], None]


def says(**said: object) -> Edit:
    """In place of a whole file of the 128 bytes that the tensor takes."""

    def edit(tensor: TensorProto) -> None:
        move_out(tensor, **({"location": FILE} | said))

    return edit


def says_twice(tensor: TensorProto) -> None:
    move_out(tensor, location=FILE)
    tensor.external_data.add(key="location", value="../secret")


def has_another_type(tensor: TensorProto) -> None:
    move_out(tensor, location=FILE)
    tensor.data_type = TensorProto.COMPLEX64


def is_a_bomb(tensor: TensorProto) -> None:
    move_out(tensor, location=FILE)
    tensor.dims[:] = [1 << 20, 1 << 7]


FAULTS: dict[str, tuple[Edit, type[CyclopsError], str]] = {
    "above": (says(location="../secret"), ExternalData, "folder"),
    "above, by a way round": (says(location="sub/../../secret"), ExternalData, "folder"),
    "up and down": (says(location="sub/../f.onnx.data"), ExternalData, "folder"),
    "absolute": (says(location="/etc/passwd"), ExternalData, "folder"),
    "the folder": (says(location="."), ExternalData, "folder"),
    "with NUL": (says(location="f.onnx.data\0x"), ExternalData, "folder"),
    "missing": (says(location="g.data"), ExternalData, "No such file"),
    "in a missing folder": (says(location="nowhere/f.onnx.data"), ExternalData, "No such file"),
    "a directory": (says(location="sub"), ExternalData, "regular"),
    "a symbolic link": (says(location="link"), ExternalData, "link"),
    "a symbolic link to a file there": (says(location="near"), ExternalData, "link"),
    "through a linked folder": (says(location="out/secret"), ExternalData, "ot a directory"),
    "a hard link": (says(location="hard"), ExternalData, "several names"),
    "a pipe": (says(location="pipe"), ExternalData, "regular"),
    "beyond the end": (says(offset=129), ExternalData, "bytes 129 to 257 of 'f.onnx.data', which has 128"),
    "far beyond the end": (says(offset=10**17), ExternalData, "which has 128"),
    "partly beyond the end": (says(offset=4), ExternalData, "bytes 4 to 132"),
    "short": (says(location="short"), ExternalData, "which has 100"),
    "a negative offset": (says(offset=-4), ExternalData, "offset.*'-4'"),
    "an offset in words": (says(offset="four"), ExternalData, "offset.*'four'"),
    "an offset in other digits": (says(offset="\u0661"), ExternalData, "offset"),
    "an offset of many digits": (says(offset="9" * 5000), ExternalData, "offset"),
    "a negative length": (says(length=-128), ExternalData, "length.*'-128'"),
    "another length": (says(length=124), ExternalData, "takes 128 bytes, and says that 124"),
    "a length of none": (says(length=0), ExternalData, "says that 0"),
    "says twice": (says_twice, ExternalData, "twice"),
    "another type": (has_another_type, UnsupportedType, "complex64"),
    "a bomb": (is_a_bomb, ExternalData, "which has 128"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with 128 bytes of data, and what it must not be led to."""
    (tmp_path / "secret").write_bytes(bytes(128))
    here = tmp_path / "model"
    (here / "sub").mkdir(parents=True)
    (here / FILE).write_bytes(bytes(128))
    (here / "short").write_bytes(bytes(100))
    (here / "link").symlink_to(tmp_path / "secret")
    (here / "near").symlink_to(FILE)
    (here / "out").symlink_to(tmp_path)
    os.link(tmp_path / "secret", here / "hard")
    os.mkfifo(here / "pipe")
    return here


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("index", [0, 2], ids=["initializer", "attribute"])
def test_what_is_not_there_or_not_the_models_is_refused(folder: Path, name: str, index: int) -> None:
    edit, error, told = FAULTS[name]
    model = two_weights()
    tensor = tensors_of(model)[index]
    tensor.dims[:] = [4, 8]
    tensor.raw_data = bytes(128)
    edit(tensor)
    with pytest.raises(error, match=told) as caught:
        whole(write(folder, model.SerializeToString(), {}))
    assert type(caught.value) is error
    assert caught.value.field == ("initializer:a" if index == 0 else "node:constant")


def test_a_tensor_that_does_not_say_where_its_elements_are_is_refused(tmp_path: Path) -> None:
    model = two_weights()
    move_out(tensors_of(model)[0])
    with pytest.raises(ExternalData, match="does not say in which; it must be in the model's folder"):
        inspect_model(whole(write(tmp_path, model.SerializeToString(), {})))


def test_the_limit_counts_what_is_kept_elsewhere_before_it_is_read(tmp_path: Path) -> None:
    model = two_weights()
    a, b, _ = tensors_of(model)
    for tensor in (a, b):
        move_out(tensor, location="there is none")
    data = model.SerializeToString()
    limits = replace(LIMITS, file_bytes=len(data) + 128 + 95)
    with pytest.raises(ModelTooLarge, match="in other files"):
        single_file(data, folder_data(tmp_path), limits)
    with pytest.raises(ExternalData):
        single_file(data, folder_data(tmp_path), replace(limits, file_bytes=limits.file_bytes + 1))


def in_a_function(model: onnx.ModelProto) -> None:
    model.functions.add(name="f").node.append(model.graph.node[2])
    move_out(model.functions[0].node[0].attribute[0].t, location="../secret")


def in_a_subgraph(model: onnx.ModelProto) -> None:
    body = model.graph.node[0].attribute.add(name="body", type=onnx.AttributeProto.GRAPH)
    body.g.initializer.append(model.graph.initializer[0])
    move_out(body.g.initializer[0], location="../secret")


def in_a_sparse_tensor(model: onnx.ModelProto) -> None:
    values = model.graph.sparse_initializer.add().values
    values.CopyFrom(model.graph.initializer[0])
    move_out(values, location="../secret")


ELSEWHERE = {
    "a function": in_a_function,
    "a subgraph": in_a_subgraph,
    "a sparse tensor": in_a_sparse_tensor,
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_constants_of_all_parts_are_kept_to_the_folder(folder: Path, name: str) -> None:
    model = two_weights()
    ELSEWHERE[name](model)
    with pytest.raises(ExternalData, match=r"'\.\./secret'; it must be a file in the model's own folder"):
        inspect_model(whole(write(folder, model.SerializeToString(), {})))
