import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.exporters import Keras, Torch, numbered

SIZES = st.integers(1, 300)


@pytest.mark.parametrize(
    ("module", "op", "name"),
    [
        ("conv1", "Conv", "/conv1/Conv"),
        ("layer1.0.conv1", "Conv", "/layer1/layer1.0/conv1/Conv"),
        ("layer1.0", "Add", "/layer1/layer1.0/Add"),
        ("features.2.conv.0.0", "Depthwise", "/features/features.2/conv/conv.0/conv.0.0/Conv"),
        ("", "Flatten", "/Flatten"),
    ],
)
def test_torch_names_nodes_by_scope(module: str, op: str, name: str) -> None:
    assert Torch().node(module, op) == name


def test_keras_names_nodes_by_tensorflows_operations() -> None:
    exporter = Keras("model")
    assert exporter.node("conv2d", "Conv") == "model/conv2d/Conv2D"
    assert exporter.output("model/conv2d/Conv2D") == "model/conv2d/Conv2D:0"
    assert exporter.parameter("conv2d", "Conv", "bias") == "model/conv2d/BiasAdd/ReadVariableOp:0"
    assert exporter.node("dense", "Relu") == "model/dense/Relu"


def test_second_of_a_kind_gets_a_number() -> None:
    assert list(itertools.islice(numbered("conv2d"), 3)) == ["conv2d", "conv2d_1", "conv2d_2"]


@given(size=SIZES, kernel=st.integers(1, 11), stride=st.integers(1, 4))
def test_keras_pads_as_little_as_gives_every_stride_a_result(size: int, kernel: int, stride: int) -> None:
    before, after = Keras("model").pads(size, kernel, stride)
    last = (-(-size // stride) - 1) * stride  # where the last window begins, in the padded axis
    assert 0 <= after - before <= 1
    assert size + before + after >= last + kernel
    assert before + after == 0 or size + before + after == last + kernel


@given(size=SIZES, kernel=st.sampled_from([1, 3, 5, 7]))
def test_torch_pads_such_that_stride_one_keeps_the_size(size: int, kernel: int) -> None:
    assert size + sum(Torch().pads(size, kernel, 1)) - kernel + 1 == size
