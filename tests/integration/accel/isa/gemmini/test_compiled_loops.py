"""Layers compiled to Gemmini's loops: the bytes of numpy, whatever their shape, and chosen where they are fast."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.lowering.kinds.layers import layer_tilings
from accel.program_files.open_program import open_program
from accel.report.documents.report_documents import Report
from accel.util.arrays import Words
from accel.util.content_cache import FolderCache
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.documents.gemmini_loops import SHAPES, with_free_loops, without_loops
from tests.helpers.marking import rest_slow, share

LOOP_WS, LOOP_CONV, MVIN, PRELOAD = 8, 15, 2, 6
LAYERS = {
    "dense": ("16", dense_model(Dense(5, 70, 33))),
    "3x3": ("16", conv_model(Conv(20, 40, 9, 7))),
    "strided": ("8", conv_model(Conv(40, 24, 17, 9, kernel=(5, 3), strides=(2, 2), relu=True))),
    "a bound that is divided": (
        "8", conv_model(Conv(27, 66, 29, 7, kernel=(2, 2), strides=(2, 2), pads=(1, 0, 1, 1), relu=True)),
    ),
    "rows of half a pixel": (
        "8", conv_model(Conv(13, 35, 14, 17, kernel=(1, 2), strides=(1, 2), pads=(0, 0, 0, 0), bias=False)),
    ),
    "rows that no tile divides": ("8", dense_model(Dense(133, 271, 104))),
    "dilated": ("16", conv_model(Conv(8, 8, 14, 14, dilations=(2, 2), pads=(2, 1, 0, 3)))),
    "pointwise": ("16", conv_model(Conv(33, 17, 6, 10, kernel=(1, 1), pads=(0, 0, 0, 0), bias=False))),
}  # fmt: skip


def run(model: onnx.ModelProto, accelerator: Accelerator, schedule: str = "quick") -> tuple[Report, Words]:
    """The report of a verified run, and the words of its program."""
    with tempfile.TemporaryDirectory() as out:
        options = Options.model_validate({"trace": False, "schedule": schedule})
        report = run_model(model.SerializeToString(), accelerator, options, Path(out))
        words = np.asarray(open_program(Path(out) / "program.zip").words)
    assert report.verified is True
    return report, words


@pytest.mark.parametrize("name", rest_slow(LAYERS, 2))
def test_a_layer_is_a_few_loops(name: str) -> None:
    """Catches fields that do not follow from the numbers of a layer, and tiles that a loop cannot have."""
    shape, model = LAYERS[name]
    report, words = run(model, with_free_loops(SHAPES[shape]))
    functs = set(words[:, 0].tolist())
    assert functs & {LOOP_WS, LOOP_CONV}
    assert not functs & {MVIN, PRELOAD}
    assert report.layers[0].instructions < 600


def test_fields_are_those_of_the_library() -> None:
    """Catches a number in another field: those that gemmini.h sets for a convolution of this shape, in its order."""
    model = conv_model(Conv(16, 32, 12, 8, kernel=(3, 3), pads=(1, 1, 1, 1), strides=(1, 1), relu=True))
    _, words = run(model, with_free_loops(SHAPES["16"]))
    loop = {int(funct): (int(rs1), int(rs2)) for funct, rs1, rs2 in words if funct >= LOOP_CONV}
    assert loop[16] == (32 << 48 | 16 << 32 | 8 << 16 | 1, 1 << 48 | 8 << 32 | 8 << 16 | 8)
    assert loop[17] == (3 << 48 | 8 << 32 | 1 << 16 | 1 << 8, 1 << 48 | 12 << 32 | 8 << 16 | 32)
    assert loop[18] == (3 << 48 | 3 << 32 | 16 << 16 | 1, 1 << 48 | 1 << 32 | 1 << 24 | 8)
    assert loop[19] == (12 << 48 | 1, 16 << 48 | 32 << 32 | 32 << 16 | 8)
    assert loop[15] == (1 << 8, 1 << 3 | 1)
    assert all(address for at in (20, 21) for address in loop[at])


def test_where_a_processor_is_slow_loops_are_taken() -> None:
    """Catches a choice that is not by cycles: a command in 40 makes single products five times as slow."""
    lean, model = load_accelerator("gemmini-lean"), conv_model(Conv(16, 16, 16, 16))
    (loops, words), (single, _) = run(model, lean), run(model, without_loops(lean))
    assert LOOP_CONV in words[:, 0]
    assert loops.cycles < single.cycles / 3


def test_loops_use_all_of_memories_of_any_size() -> None:
    """Catches documents that are refused once a number of them changes: a loop needs all of memories, not so many."""
    document = load_accelerator("gemmini-lean").model_dump(mode="json", exclude_none=True)
    for memory, rows in zip(document["memories"], (1024, 512), strict=False):
        memory["depth"] = rows
    document["parameters"] |= {"scratchpad_bytes": 1024 * 16, "accumulator_bytes": 512 * 16 * 4}
    small = parse_accelerator({**document, "name": "small"})
    _, words = run(conv_model(Conv(16, 64, 12, 12)), small)
    assert np.count_nonzero(words[:, 0] == LOOP_CONV) > 1


def test_what_loops_do_is_found_once_for_all_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches nests that are matched anew for a document that differs in time, and answers kept under too little."""
    lean, model = load_accelerator("gemmini-lean"), conv_model(Conv(16, 32, 15, 9)).SerializeToString()
    slower = lean.model_copy(update={"dram": lean.dram.model_copy(update={"read_latency": lean.dram.read_latency + 7})})

    def planned(accelerator: Accelerator, cache: FolderCache | None) -> list[float]:
        report = run_model(model, accelerator, Options(schedule="quick"), tmp_path, cache=cache)
        return [report.cycles, *(layer.instructions for layer in report.layers)]

    anew, cache = planned(slower, None), FolderCache(tmp_path / "cache")
    planned(lean, cache)
    monkeypatch.setattr(layer_tilings, "match_within", None)
    assert planned(slower, cache) == anew


@pytest.mark.slow
def test_where_single_products_are_faster_they_are_taken() -> None:
    """Catches loops whose price is too low, and trials that know other addresses: a tensor at 0 is none to a loop."""
    gemmini, model = load_accelerator("gemmini"), conv_model(Conv(32, 64, 16, 16, strides=(2, 2), pads=(0, 0, 1, 1)))
    both, single = (run(model, each, "timed")[0] for each in (gemmini, without_loops(gemmini)))
    assert both.cycles <= single.cycles


@st.composite
def layers(draw: st.DrawFn) -> onnx.ModelProto:
    """Convolutions of any strides, padding, dilation, groups, bias and bounds, and products of any size."""
    if draw(st.integers(0, 4)) == 0:
        return dense_model(Dense(draw(st.integers(1, 150)), draw(st.integers(1, 300)), draw(st.integers(1, 150))))
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    dilations = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (2, 1)]))
    high, wide = (1 + (size - 1) * step for size, step in zip(kernel, dilations, strict=True))
    pads = tuple(draw(st.integers(0, most - 1)) for most in (high, wide, high, wide))
    conv = Conv(
        channels=groups * draw(st.integers(1, 70)),
        filters=groups * draw(st.integers(1, 70)),
        height=draw(st.integers(high, high + 20)),
        width=draw(st.integers(wide, wide + 20)),
        kernel=kernel,
        strides=draw(st.sampled_from([(1, 1), (2, 2), (3, 3), (2, 1), (1, 2)])),
        pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=dilations,
        groups=groups,
        batch=draw(st.integers(1, 2)),
        bias=draw(st.booleans()),
        relu=draw(st.booleans()),
        limit=draw(st.sampled_from([None, 100])),
    )
    return conv_model(conv)


@pytest.mark.slow
@settings(max_examples=share(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=layers(), shape=st.sampled_from(sorted(SHAPES)))
def test_any_layer(model: onnx.ModelProto, shape: str) -> None:
    """Catches tiles at which a nest simplifies to another form, and reads beyond the image."""
    run(model, with_free_loops(SHAPES[shape]))
