"""Cycles of launches timed as a row by themselves, as trials do, against those of the program that they become."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver import region_choice
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.driver.trials import row_timer
from accel.lowering.partition.launch_rows import RowLaunch
from tests.helpers.documents.whole_elements import with_whole_elements


def _network() -> onnx.ModelProto:
    """Three convolutions with borders around their data, one after the other."""
    rng, nodes, weights, name = np.random.default_rng(3), [], [], "x"
    for number, channels in enumerate((16, 32, 32)):
        kernel = rng.normal(size=(32, channels, 3, 3)).astype(np.float32) / 12
        weights.append(numpy_helper.from_array(kernel, f"w{number}"))
        nodes.append(helper.make_node("Conv", [name, f"w{number}"], [f"c{number}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        name = f"r{number}"
    graph = helper.make_graph(
        nodes,
        "three",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 8, 8])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "off"), [("vta", 0.002), ("npu", 0.02)])
def test_a_row_takes_what_its_launches_do_in_the_program(
    name: str, off: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a VTA tensors that are wired wrongly are off by a hundredth: a load runs beside the store it should await.

    Nothing runs on the accelerator before the row: the host lays out its first data.
    """
    taken: dict[int, int] = {}

    class Recorded(row_timer.RowTimer):
        def __call__(self, row: Sequence[RowLaunch]) -> int | None:
            cycles = super().__call__(row)
            assert cycles is not None
            taken[cycles] = len(row)
            return cycles

    monkeypatch.setattr(region_choice, "RowTimer", Recorded)
    model, accelerator = _network().SerializeToString(), with_whole_elements(load_accelerator(name), "load_x")
    report = run_model(model, accelerator, Options(trace=False, schedule="timed"), tmp_path)
    assert report.verified
    assert taken[min(taken)] == 3
    assert min(taken) == pytest.approx(sum(layer.cycles for layer in report.layers if layer.op == "conv2d"), rel=off)
