"""Transposed convolutions become convolutions, and give what the definition says, bit by bit."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.transposed_convolution import phases_along
from accel.frontend.read.model_inspection import inspect_model
from examples.graph import Array, Graph
from tests.helpers.marking import rotated
from tests.helpers.models.exporter_habits import HABITS
from tests.reference.host import run_onnx, run_relax

X_SCALE, OUTPUT_SCALE = 0.5, 4.0
TRANSPOSED = [name for name in HABITS if name.startswith("transposed")]
QUICK = ["transposed", "transposed, of lines"]


@dataclass(frozen=True)
class Case:
    """A transposed convolution of [batch, groups * inputs, *size] to groups * outputs channels.

    Per axis of space: the stride, dilation, padding before and after, and what is added after.
    """

    batch: int
    groups: int
    inputs: int
    outputs: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    added: tuple[int, ...]
    unsigned: bool
    per_channel: bool

    def arrays(self) -> tuple[Array, Array, Array]:
        """The data, and the weights as integers and minus their zero points."""
        random, rank = np.random.default_rng(0), len(self.size)
        kind = np.iinfo(np.uint8 if self.unsigned else np.int8)
        shape = (self.batch, self.groups * self.inputs, *self.size)
        x = random.integers(kind.min, kind.max, shape, kind.dtype, endpoint=True)
        w = random.integers(-128, 127, (shape[1], self.outputs, *self.kernel), np.int8, endpoint=True)
        return x, w, w.astype(np.int64) - self.weight_zero().astype(np.int64).reshape(1, -1, *[1] * rank)

    def zero(self) -> Array:
        return np.array(131, np.uint8) if self.unsigned else np.array(-3, np.int8)

    def weight_zero(self) -> Array:
        zeros = np.arange(self.outputs) - 1 if self.groups == 1 else np.zeros(self.outputs)
        return (zeros if self.per_channel else zeros[:1].reshape(())).astype(np.int8)

    def weight_scale(self) -> Array:
        return (2.0 ** -np.arange(1, self.outputs + 1) if self.per_channel else np.array(0.125)).astype(np.float32)

    def bias(self) -> Array:
        return np.arange(self.groups * self.outputs, dtype=np.int32) * 100 - 150

    def result(self) -> tuple[int, ...]:
        before, after = self.pads[: len(self.size)], self.pads[len(self.size) :]
        return tuple(
            (n - 1) * s + d * (k - 1) + 1 + more - p - q
            for n, s, d, k, more, p, q in zip(
                self.size, self.strides, self.dilations, self.kernel, self.added, before, after, strict=True
            )
        )


def expected(case: Case) -> Array:
    """The sums, scattered as ONNX defines them, requantised to even; int8."""
    x, _, w = case.arrays()
    centred = x.astype(np.int64) - int(case.zero())
    batch, outputs, rank = case.batch, case.groups * case.outputs, len(case.size)
    whole = [size + p + q for size, p, q in zip(case.result(), case.pads[:rank], case.pads[rank:], strict=True)]
    acc = np.zeros((batch, outputs, *whole), np.int64)
    for group in range(case.groups):
        data = centred[:, group * case.inputs : (group + 1) * case.inputs]
        weights = w[group * case.inputs : (group + 1) * case.inputs]
        to = acc[:, group * case.outputs : (group + 1) * case.outputs]
        for at in np.ndindex(*case.size):
            for k in np.ndindex(*case.kernel):
                place = [i * s + j * d for i, s, j, d in zip(at, case.strides, k, case.dilations, strict=True)]
                to[(..., *place)] += data[(..., *at)] @ weights[(..., *k)]
    cut = tuple(slice(p, p + size) for p, size in zip(case.pads[:rank], case.result(), strict=True))
    along = (-1, *[1] * rank)
    acc = acc[(..., *cut)] + case.bias().reshape(along)
    scale = np.broadcast_to(case.weight_scale(), (case.groups, case.outputs)).reshape(along) * (X_SCALE / OUTPUT_SCALE)
    return np.clip(np.rint(acc * scale), -128, 127).astype(np.int8)


def model_of(case: Case) -> onnx.ModelProto:
    graph, (x, w, _) = Graph("transposed"), case.arrays()
    data = graph.dequantize(
        graph.input("x", x.shape, onnx.helper.np_dtype_to_tensor_dtype(x.dtype)), X_SCALE, case.zero()
    )
    parameters = graph.constant("w_scale", case.weight_scale()), graph.constant("w_zero", case.weight_zero())
    weight = graph.node("DequantizeLinear", "w_float", [graph.constant("w", w), *parameters], axis=1)
    scales = np.tile(case.weight_scale(), case.groups) if case.per_channel else case.weight_scale()
    bias_scale = graph.constant("bias_scale", (scales * X_SCALE).astype(np.float32))
    bias = graph.node("DequantizeLinear", "b_float", [graph.constant("b", case.bias()), bias_scale], axis=0)
    y = graph.node("ConvTranspose", "up", [data, weight, bias], strides=case.strides, dilations=case.dilations,
                   pads=case.pads, output_padding=case.added, group=case.groups)  # fmt: skip
    shape = (case.batch, case.groups * case.outputs, *case.result())
    graph.output(graph.quantize(y, OUTPUT_SCALE, np.array(0, np.int8), "y"), shape, onnx.TensorProto.INT8)
    return graph.model()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    size, kernel, strides, dilations = each(1, 4), each(1, 5), each(1, 3), each(1, 3)
    added = tuple(draw(st.integers(0, stride - 1)) for stride in strides)
    pads: list[int] = []
    for _ in range(2):  # neither end is cut by more than the kernel, nor by all that there is
        left = [(n - 1) * s + d * (k - 1) for n, s, d, k in zip(size, strides, dilations, kernel, strict=True)]
        pads += [draw(st.integers(0, min(span // 2, 4))) for span in left]
    numbers = [draw(st.integers(1, high)) for high in (2, 3, 3, 3)]
    flags = [draw(st.booleans()) for _ in range(2)]
    return Case(*numbers, size, kernel, strides, dilations, tuple(pads), added, *flags)


@settings(max_examples=8, deadline=None)
@given(cases())
def test_it_is_the_definition(case: Case) -> None:
    model = model_of(case)
    imported = import_integer_model(model, "scale")
    assert [name.split("_")[0] for name in imported.macs] == ["conv2d"]
    assert sum(imported.macs.values()) == inspect_model(model.SerializeToString()).macs
    (result,) = run_relax(imported, case.arrays()[0])
    np.testing.assert_array_equal(result, expected(case))
    (theirs,) = run_onnx(model, {"x": case.arrays()[0]})  # in float32, which rounds large sums
    assert np.abs(theirs.astype(int) - result).max() <= 1


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "before", "length"),
    [(2, 2, 1, 0, 1), (3, 2, 1, 1, 2), (4, 2, 1, 1, 2), (5, 3, 1, 1, 2), (3, 1, 2, 2, 3), (3, 2, 2, 0, 3)],
)
def test_the_kernel_is_no_longer_than_a_phase_needs(
    kernel: int, stride: int, dilation: int, before: int, length: int
) -> None:
    found = phases_along(8, kernel, stride, dilation, before, 8 * stride)
    assert {len(row) for row in found.taps} == {length}
    assert sorted(tap for row in found.taps for tap in row if tap >= 0) == list(range(kernel))


@pytest.mark.parametrize(("name", "preset"), rotated(QUICK, ["vta", "gemmini"]))
def test_the_accelerator_runs_it(name: str, preset: str, tmp_path: Path) -> None:
    check_run(name, preset, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "preset"), rotated([name for name in TRANSPOSED if name not in QUICK], ["vta", "gemmini"])
)
def test_the_accelerator_runs_all(name: str, preset: str, tmp_path: Path) -> None:
    check_run(name, preset, tmp_path)


def check_run(name: str, preset: str, tmp_path: Path) -> None:
    habit = HABITS[name]
    for opset in habit.opsets:
        model = habit.model(opset).SerializeToString()
        report = run_model(model, load_accelerator(preset), Options(trace=False), tmp_path)
        assert report.verified
        assert report.macs.share == 1
        assert [layer.nodes for layer in report.layers] == [["ConvTranspose.0"]]
        assert report.quantisation[0].sqnr_db > 25


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("preset", ["vta-8", "vta-small", "mvin-mvout", "output-stationary", "vector"])
def test_so_do_the_others(preset: str, tmp_path: Path) -> None:
    report = run_model(
        HABITS["transposed, groups"].model(13).SerializeToString(), load_accelerator(preset), Options(), tmp_path
    )
    assert report.verified
    assert report.macs.share == 1
