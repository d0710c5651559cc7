"""A bias that a product adds, on a machine that clears its accumulators: loads of one a pixel would take its bus."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.decode import decode
from accel.program_files.program_container import load_program


@pytest.mark.parametrize(("side", "by_product"), [(32, True), (1, False)])
def test_a_bias_is_what_takes_less(side: int, by_product: bool, tmp_path: Path) -> None:
    """Catches an image whose biases are loaded, 128 bytes a pixel and block, and products where one load does it."""
    random = np.random.default_rng(0)
    stored = {
        "weights": random.normal(0, 0.1, (64, 64, 1, 1)).astype(np.float32),
        "bias": random.normal(0, 3, 64).astype(np.float32),
    }
    shapes = {name: [1, 64, side, side] for name in ("x", "y")}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Conv", ["x", *stored], ["y"], name="layer")]
    constants = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "biased", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    machine = load_accelerator("npu")
    report = run_model(model.SerializeToString(), machine, Options(trace=False, schedule="quick"), tmp_path)
    assert report.verified
    with (tmp_path / "program.zip").open("rb") as file:
        program = load_program(file)
    decoded = decode(machine, program.words)
    used = {machine.instructions[kind].name for kind in np.unique(decoded.kind)}
    assert ("load_acc" not in used) == by_product
