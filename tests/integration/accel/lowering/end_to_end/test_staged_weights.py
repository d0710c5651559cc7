"""A machine on which weights come to the array by an instruction of its own, from a buffer that a copy loads."""

from pathlib import Path

import numpy as np
import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import InvalidAccelerator
from accel.isa.decode import decode
from accel.program.program_model import Launch
from accel.program_files.open_program import open_program
from examples.graph import Graph

MACRO = parse_accelerator((Path(__file__).parents[5] / "docs" / "machines" / "digital-cim.yaml").read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hazards", "in_order"])
def test_each_plane_is_loaded_written_and_multiplied(kind: str, tmp_path: Path) -> None:
    """Catches a plane that is multiplied before it is written, or written over while it is, and one written twice."""
    order = {"kind": kind} | ({"window": 8} if kind == "hazards" else {})
    document = MACRO.model_dump(mode="json") | {"synchronisation": order}
    accelerator = type(MACRO).model_validate(document)
    random, graph = np.random.default_rng(0), Graph("planes")
    weights = graph.constant("w", random.normal(0, 0.1, (40, 280, 1, 3)).astype(np.float32))
    graph.node("Conv", "conv", [graph.input("x", (1, 280, 3, 9)), weights], "y", pads=[0, 1, 0, 1])
    graph.output("y", (1, 40, 3, 9))
    model = tmp_path / "model.onnx"
    model.write_bytes(graph.model().SerializeToString())
    report = run_model(model, accelerator, Options(trace=False), tmp_path)
    assert report.verified
    program = open_program(tmp_path / "program.zip")
    (launch,) = (step for step in program.steps if isinstance(step, Launch))
    decoded = decode(accelerator, program.words)
    names = [each.name for each in accelerator.instructions]
    # eight planes: 40 channels of the result, and 840 of the image's patches
    plane, written = decoded.column("plane"), decoded.kind == names.index("write_plane")
    assert plane[written].tolist() == [0, 1] * 4  # one is written while the other computes
    assert plane[decoded.kind == names.index("multiply")].tolist() == [0, 1] * 4
    assert launch.macs == 40 * 280 * 3 * 27


def test_the_memory_that_copies_load_is_the_buffer() -> None:
    gemm = Target(MACRO).contraction
    assert (gemm.weights.memory.name, gemm.weights_loaded_to.name) == ("cells", "buffer")
    assert gemm.stage is not None
    assert gemm.stage.instruction.name == "write_plane"


def test_weights_that_nothing_brings_are_refused() -> None:
    document = MACRO.model_dump(mode="json")
    document["instructions"] = [each for each in document["instructions"] if each["name"] != "load_weights"]
    with pytest.raises(InvalidAccelerator, match="nothing fills buffer") as caught:
        parse_accelerator(document)
    assert caught.value.field == "accelerator.memories.1"
