"""A machine whose products slide, ``X[stride * i + r]``: which layers it does with which windows, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.decode import decode
from accel.isa.explicit.hazards.accesses import HIGH, LOW, MEMORY, ranges_of
from accel.program.program_model import Launch, Program
from accel.program_files.open_program import open_program
from examples.graph import Graph
from tests.helpers.documents.explicit_documents import row, stream

EYERISS = Path(__file__).parents[5] / "docs" / "machines" / "eyeriss.yaml"
LAYERS: dict[str, dict[str, Any]] = {
    "three": {"pads": [1] * 4},
    "second": {"pads": [1] * 4, "strides": [2, 2]},
    "five": {"pads": [2] * 4},
    "wide": {"pads": [2] * 4, "dilations": [2, 2]},
    "fourth": {"strides": [4, 4]},
}


def machine(*, without: str = "") -> Accelerator:
    accelerator = parse_accelerator(EYERISS.read_bytes())
    kept = tuple(each for each in accelerator.instructions if each.name != without)
    return accelerator.model_copy(update={"instructions": kept})


def layers(*names: str) -> onnx.ModelProto:
    """Convolutions of 8 channels on one image of 19 columns; channels fill blocks, so that patches gain nothing."""
    random, graph = np.random.default_rng(1), Graph("slid")
    image = graph.input("x", (1, 8, 7, 19))
    for name in names:
        size = 5 if name == "five" else 3
        weights = graph.constant(f"{name}_w", random.normal(0, 0.3, (6, 8, size, size)).astype(np.float32))
        y = graph.node("Conv", name, [image, weights], **LAYERS[name])
        strides, edge = LAYERS[name].get("strides", [1, 1]), 2 if name == "fourth" else 0
        graph.output(y, (1, 6, *(-(-(n - edge) // step) for n, step in zip((7, 19), strides, strict=True))))
    return graph.model()


def run(model: onnx.ModelProto, accelerator: Accelerator, folder: Path) -> Any:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return run_model(path, accelerator, Options(trace=False), folder)


def windows(program: Program) -> dict[str, set[tuple[str, int]]]:
    """The products of each launch, with their strides."""
    decoded = decode(program.accelerator, program.words)
    names = [each.name for each in program.accelerator.instructions]
    found: dict[str, set[tuple[str, int]]] = {}
    for launch in (step for step in program.steps if isinstance(step, Launch)):
        rows = slice(launch.begin, launch.begin + launch.count)
        done = zip(decoded.kind[rows].tolist(), decoded.column("stride")[rows].tolist(), strict=True)
        found[launch.name] = {(names[kind], step) for kind, step in done if names[kind] in ("slide", "point")}
    return found


@pytest.mark.slow
def test_layers_are_done_with_the_windows_that_they_have(tmp_path: Path) -> None:
    """Catches wrong numbers, products of a tap each where three fit, and a stride or a dilation that is not theirs."""
    report = run(layers("three", "second", "five", "wide"), machine(), tmp_path)
    assert report.verified
    assert {layer.nodes[0] for layer in report.layers} == {"three", "second", "five", "wide"}
    found = windows(open_program(tmp_path / "program.zip"))
    assert found == {
        "three": {("slide", 1)},
        "second": {("slide", 2)},
        "five": {("point", 1)},
        "wide": {("point", 1)},
    }


def test_what_no_window_fits_is_the_hosts_and_the_reason_says_why(tmp_path: Path) -> None:
    report = run(layers("three", "fourth", "five"), machine(without="point"), tmp_path)
    assert report.verified
    reasons = {each.node: each.reason for each in report.host_ops}
    assert "it has 3 taps a row and a stride of 4, and there are row 3 taps 1 to 3 apart" in reasons["fourth"]
    assert "it has 5 taps a row and a stride of 1" in reasons["five"]


def test_what_a_window_reaches_follows_from_its_stride() -> None:
    """Catches hazards with what lies behind a window, and reads that are in no memory and are not seen."""
    accelerator = machine()
    memory = [each.name for each in accelerator.memories].index("x")
    for stride, reach in ((0, 3), (1, 18), (2, 33)):
        decoded = stream(accelerator, [row("slide", stride=stride, x=100, rows=1)])
        table = ranges_of(decoded).table
        (touched,) = table[table[:, MEMORY] == memory].tolist()
        assert touched[HIGH] - touched[LOW] == reach


def test_the_contraction_is_of_a_column_and_a_tap() -> None:
    gemm = Target(machine()).contraction
    assert (gemm.rows, gemm.out_channels, gemm.in_channels, gemm.macs) == (1, 16, 4, 16 * 3 * 16 * 4)
    assert [(slide.operation, slide.columns, slide.taps) for slide in gemm.slides] == [("row", 16, 3), ("tap", 16, 1)]
