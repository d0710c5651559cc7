"""Maxima over windows on a machine whose vector unit takes the maximum of two, and that has no other pooling."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.program.program_model import HostStep, Launch, Program
from accel.program_files.program_container import load_program
from accel.report.documents.report_documents import Report
from tests.helpers.models.pools import Pool, expected, pool_model

_QUICK = Options(trace=False, schedule="quick")


def between_convolutions(shape: tuple[int, ...], middle: int, **window: object) -> onnx.ModelProto:
    """A pooling of ``middle`` channels between two convolutions of kernels of 3."""
    random, axes = np.random.default_rng(0), len(shape) - 2
    weights = {"w": (middle, shape[1]), "v": (32, middle)}
    around = {"kernel_shape": [3] * axes, "pads": [1] * 2 * axes}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first", **around),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", **window),
        helper.make_node("Conv", ["p", "v"], ["y"], name="second", **around),
    ]
    constants = [
        numpy_helper.from_array(random.normal(size=(*size, *[3] * axes)).astype(np.float32), name)
        for name, size in weights.items()
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
    graph = helper.make_graph(nodes, "g", [given], [made], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ran(
    model: onnx.ModelProto, accelerator: Accelerator, out: Path, x: np.ndarray | None = None
) -> tuple[Report, Program]:
    inputs = None if x is None else {"x": x}
    report = run_model(model.SerializeToString(), accelerator, _QUICK, out, inputs=inputs)
    with (out / "program.zip").open("rb") as file:
        return report, load_program(file)


def host_steps(program: Program) -> int:
    """Steps of the host behind the first layer and ahead of the last."""
    layers = ("first", "second")
    at = [place for place, step in enumerate(program.steps) if isinstance(step, Launch) and step.name in layers]
    return sum(isinstance(step, HostStep) for step in program.steps[at[0] : at[-1]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "middle", "window"),
    [
        pytest.param(
            (1, 32, 16, 16), 32, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}, id="as in ResNet"
        ),
        pytest.param(
            (1, 32, 8, 8), 64, {"kernel_shape": [2, 2], "strides": [2, 2]}, id="without overlap", marks=pytest.mark.all
        ),
        pytest.param(
            (1, 32, 11, 11),
            48,
            {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
            id="half a block",
            marks=pytest.mark.all,
        ),
        pytest.param((1, 32, 32), 32, {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}, id="a line"),
    ],
)
def test_no_host_step_is_between_layers(
    shape: tuple[int, ...], middle: int, window: dict[str, object], tmp_path: Path
) -> None:
    """It would catch a pooling, its padding or that of the next layer left to the host, and a wrong maximum."""
    report, program = ran(between_convolutions(shape, middle, **window), load_accelerator("npu"), tmp_path)
    assert report.verified is True
    assert not [each for each in report.host_ops if each.node == "pool"]
    assert host_steps(program) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "pool",
    [
        pytest.param(Pool(33, 9, 8, (3, 2), (2, 1), (0, 1, 2, 0), relu=True), id="uneven padding"),
        pytest.param(Pool(5, 10, 9, (2, 3), (1, 2), (1, 2, 1, 2), (2, 2), relu=True, limit=20), id="apart, clipped"),
        pytest.param(Pool(7, 7, 7, (1, 1), (2, 2), relu=True, limit=20), id="of one element"),
        pytest.param(Pool(20, 6, 6, (3, 3), (2, 2), (1, 1, 1, 1), batch=3, ceil=True), id="rounded up, of a batch"),
    ],
)
def test_windows(pool: Pool, tmp_path: Path) -> None:
    """It would catch a slice that begins or ends beside its place, and padding that is larger than data."""
    x = np.random.default_rng(0).integers(-128, 128, (pool.batch, pool.channels, pool.height, pool.width), np.int8)
    report, _ = ran(pool_model(pool), load_accelerator("npu"), tmp_path, x)
    assert report.verified is True
    told = {each.reason.rpartition("; ")[2] for each in report.host_ops if each.node == "pool"}
    assert told <= {"the host lays its result out"}, "of an output of int8 whose channels lie side by side"
    np.testing.assert_array_equal(np.load(tmp_path / "outputs.npz")["y"], expected(pool, x))


def without_maxima() -> Accelerator:
    """The npu without an instruction, or a reduction, that takes a maximum."""
    document = load_accelerator("npu").model_dump(mode="json", exclude_none=True)
    for instruction in document["instructions"]:
        if "operations" in instruction:
            instruction["operations"] = [
                each for each in instruction["operations"] if each["name"] not in ("max", "min")
            ]
    document["name"] = "npu-without-maxima"
    return Accelerator.model_validate(document)


@pytest.mark.slow
def test_a_machine_without_maxima_says_what_it_lacks(tmp_path: Path) -> None:
    """It would catch a reason that speaks of accumulators alone, and slices that are left to the host."""
    pool = Pool(32, 8, 8, relu=True)
    report, _ = ran(pool_model(pool), without_maxima(), tmp_path)
    (reason,) = [each.reason for each in report.host_ops if each.node == "pool"]
    assert reason.endswith("as maxima of slices, in a vector program: no instruction does max(x, y)")
    assert report.verified is True


def test_what_the_options_leave_to_the_host_stays_there(tmp_path: Path) -> None:
    """It would catch a pooling that is taken apart although the host shall run it."""
    options = _QUICK.model_copy(update={"host_nodes": ("pool",)})
    report = run_model(
        pool_model(Pool(32, 6, 6, relu=True)).SerializeToString(), load_accelerator("npu"), options, tmp_path
    )
    assert [each.reason for each in report.host_ops if each.node == "pool"] == [
        "the job's options leave it to the host"
    ]
    assert report.verified is True
