"""Instructions as large as a layer: matched, cut where they must be, chosen by cost, simulated bit by bit and timed."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.explicit.document_function import ExplicitMachine
from accel.report.documents.report_documents import Report
from accel.util.arrays import Bytes, aligned_zeros
from examples.networks import build
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.documents.layer_machines import MACHINES, changed, vector_with_layers
from tests.helpers.marking import others_all, rest_all, share
from tests.helpers.models.pools import Pool, pool_model
from tests.helpers.programs.streams import stream

LAYERS = {
    "3x3": conv_model(Conv(20, 24, 9, 7)),
    "strided": conv_model(Conv(40, 24, 17, 9, kernel=(5, 3), strides=(2, 2), relu=True)),
    "depthwise": conv_model(Conv(40, 40, 8, 8, groups=40)),
    "pointwise": conv_model(Conv(33, 17, 6, 10, kernel=(1, 1), pads=(0, 0, 0, 0), bias=False)),
    "dilated": conv_model(Conv(8, 8, 14, 14, dilations=(2, 3), pads=(2, 1, 0, 3))),
    "batched": conv_model(Conv(3, 5, 8, 8, batch=3, limit=100)),
    "grouped": conv_model(Conv(64, 128, 7, 7, groups=4)),
    "large groups": conv_model(Conv(160, 96, 4, 4, groups=2, kernel=(1, 1), pads=(0, 0, 0, 0))),
    "dense": dense_model(Dense(5, 70, 33)),
}


def run(model: onnx.ModelProto, accelerator: Accelerator) -> Report:
    with tempfile.TemporaryDirectory() as out:
        report = run_model(model.SerializeToString(), accelerator, Options(trace=False), Path(out))
    assert report.verified is True  # against integers in numpy
    return report


@pytest.mark.parametrize("layer", rest_all(LAYERS, 3))
def test_a_layer_is_an_instruction(layer: str) -> None:
    """Catches a nest that is not recognised, or recognised as another one."""
    report = run(LAYERS[layer], load_accelerator("conv-engine"))
    (launch,) = [entry for entry in report.layers if entry.macs]
    assert report.macs.share == 1.0
    assert launch.instructions <= {"batched": 3, "large groups": 2, "grouped": 4}.get(layer, 1)
    assert launch.cycles >= launch.lower_bound > launch.macs / 256


@pytest.mark.parametrize(
    "machines",
    [
        pytest.param("bytes_of_dram+small_memories+loops_inside_out+of_parts", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.all) for name in ("narrow_counts+no_groups+no_padding", *MACHINES)),
    ],
)
def test_on_machines_that_differ(machines: str) -> None:
    """Catches what holds of the preset alone: its order of loops, its units, its fields, its ways to end."""
    accelerator = changed(*(MACHINES[name] for name in machines.split("+")))
    layers = ("pointwise",) if machines == "cleared" else ("strided", "depthwise")  # which begins with no bias
    for layer in layers:
        report = run(LAYERS[layer], accelerator)
        assert report.macs.share == 1.0
        if "small_memories" in machines or "narrow_counts" in machines:
            assert report.layers[0].instructions > 1


def test_the_cheaper_of_both_is_chosen() -> None:
    """Catches a planner that always, or never, takes the instruction as large as a layer."""
    for cycles, chosen in (("10", ["convolve"]), ("100000000", ["load_x", "load_w", "vmac"])):
        plan = plan_model(LAYERS["depthwise"].SerializeToString(), vector_with_layers(cycles))
        used = [each.instruction for launch in plan.launches for each in launch.instructions]
        assert [name for name in dict.fromkeys(used) if name in ("convolve", "load_x", "load_w", "vmac")] == chosen


@pytest.mark.all
@pytest.mark.parametrize("cycles", ["10", "100000000"])
@pytest.mark.parametrize("layer", ["depthwise", "dense", "strided"])
def test_a_machine_with_both(cycles: str, layer: str) -> None:
    """Catches a layer whose tensors do not lie as the smaller instructions have them."""
    assert run(LAYERS[layer], vector_with_layers(cycles)).macs.share == 1.0


@st.composite
def convolutions(draw: st.DrawFn) -> Conv:
    """Convolutions of any strides, padding, dilation, groups, bias and clips that leave a result."""
    groups = draw(st.sampled_from([1, 1, 1, 2, 5]))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    dilations = (draw(st.integers(1, 2)), draw(st.integers(1, 3)))
    high, wide = (1 + (size - 1) * step for size, step in zip(kernel, dilations, strict=True))
    pads = tuple(draw(st.integers(0, most - 1)) for most in (high, wide, high, wide))
    return Conv(
        channels=groups * draw(st.integers(1, 20)),
        filters=groups * draw(st.integers(1, 20)),
        height=draw(st.integers(high, high + 7)),
        width=draw(st.integers(wide, wide + 7)),
        kernel=kernel,
        strides=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=dilations,
        groups=groups,
        batch=draw(st.integers(1, 2)),
        bias=draw(st.booleans()),
        relu=draw(st.booleans()),
        limit=draw(st.sampled_from([None, 100])),
    )


@pytest.mark.slow
@settings(max_examples=share(16), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conv=convolutions())
def test_any_convolution(conv: Conv) -> None:
    """Catches shapes at which the nest simplifies to another form: kernels, rows and columns of 1, strides over all."""
    report = run(conv_model(conv), load_accelerator("conv-engine"))
    assert report.macs.share == 1.0


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Maxima over windows, none of which is padding alone."""
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    pads = tuple(draw(st.integers(0, most - 1)) for most in (*kernel, *kernel))
    return Pool(
        channels=draw(st.integers(1, 40)),
        height=draw(st.integers(4, 9)),
        width=draw(st.integers(4, 9)),
        kernel=kernel,
        strides=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        pads=(pads[0], pads[1], pads[2], pads[3]),
        batch=draw(st.integers(1, 2)),
        relu=draw(st.booleans()),
    )


@pytest.mark.slow
@settings(max_examples=share(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pool=pools())
def test_any_maximum(pool: Pool) -> None:
    """Catches zeros that count as data, and a kernel that moves over the data in another way than that of a sum."""
    report = run(pool_model(pool), load_accelerator("conv-engine"))
    assert [layer.op for layer in report.layers] == [*(["conv2d"] if pool.relu else []), "max_pool"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "network", others_all(["resnet8", "keyword_spotting", "autoencoder", "visual_wake_words"], ["resnet8"])
)
def test_networks(network: str) -> None:
    """Catches layers that do not follow each other in DRAM, and residual additions left to the host."""
    report = run(build(network), load_accelerator("conv-engine"))
    assert report.macs.share == 1.0
    assert {op.op for op in report.host_ops} <= {"QuantizeLinear", "DequantizeLinear", "Softmax"}
    assert all(layer.instructions == 1 for layer in report.layers) or network == "visual_wake_words"  # 96 x 96
    assert all(0 <= layer.utilisation <= 1 for layer in report.layers)


_LOW = -77.0


def test_padding_strides_and_dilation_of_any_fields() -> None:
    """Catches fields that no compiled program has: positions far outside, windows of no data, steps of 0."""
    rng, accelerator = np.random.default_rng(4), load_accelerator("conv-engine")
    machine = ExplicitMachine(accelerator)
    for _ in range(40):
        fields = {
            name: int(rng.integers(1, most))
            for name, most in {
                **dict.fromkeys(("blocks", "in_blocks"), 3),
                **dict.fromkeys(("rows", "columns", "kernel_rows", "kernel_columns"), 4),
                **dict.fromkeys(("stride_rows", "stride_columns", "dilation_rows", "dilation_columns"), 4),
                **dict.fromkeys(("height", "width"), 6),
            }.items()
        } | {name: int(rng.integers(0, 6)) for name in ("pad_top", "pad_left", "x_group", "w_column")}
        fields |= {"x_row": 7, "x_block": 60, "w_block": 40, "w_in_block": 16, "w_row": 4, "y_block": 20, "y_row": 5}
        fields |= {"x": 16, "w": 64, "bias": 3, "y": 4000}
        dram = aligned_zeros(1 << 17)
        dram[:] = rng.integers(0, 256, len(dram), np.uint8)
        dram.view(np.int32)[48:96] = rng.integers(-9000, 9000, 48)  # the bias
        wanted = _convolved(dram.copy(), fields)
        floats = {"scale": 0.01, "low": _LOW, "high": 127.0}
        bits = {name: int(np.float32(value).view(np.uint32)) for name, value in floats.items()}
        machine.run(stream(accelerator, [("convolve", fields | bits)]), dram)
        np.testing.assert_array_equal(dram, wanted)


def _convolved(dram: Bytes, f: dict[str, int]) -> Bytes:
    """DRAM after a convolution, by the meaning of its fields, one product of a tile after the other."""
    x, w = dram.view(np.int8).reshape(-1, 16), dram.view(np.int8).reshape(-1, 16, 16)
    bias, found = dram.view(np.int32).reshape(-1, 16), {}
    for block, row, column in np.ndindex(f["blocks"], f["rows"], f["columns"]):
        sums = bias[f["bias"] + block].astype(np.int64)
        for part, down, along in np.ndindex(f["in_blocks"], f["kernel_rows"], f["kernel_columns"]):
            y = row * f["stride_rows"] + down * f["dilation_rows"] - f["pad_top"]
            at = column * f["stride_columns"] + along * f["dilation_columns"] - f["pad_left"]
            if not (0 <= y < f["height"] and 0 <= at < f["width"]):
                continue
            data = x[f["x"] + block * f["x_group"] + part * f["x_block"] + y * f["x_row"] + at]
            tile = w[f["w"] + block * f["w_block"] + part * f["w_in_block"] + down * f["w_row"] + along * f["w_column"]]
            sums = sums + tile.astype(np.int64) @ data.astype(np.int64)
        scaled = np.rint(sums.astype(np.int32).astype(np.float32) * np.float32(0.01))
        place = f["y"] + block * f["y_block"] + row * f["y_row"] + column
        found[place] = scaled.clip(_LOW, 127).astype(np.int8)
    made = dram.copy()
    for place, values in found.items():
        made.view(np.int8).reshape(-1, 16)[place] = values
    return made
