"""Movement between layers on machines with a vector unit: random chains of it, and what is left to the host."""

from collections.abc import Callable
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
from examples.transformers.decoders import gpt2_block, llama_block
from examples.transformers.encoders import bert, vit
from tests.helpers.models.growing_graph import GrowingGraph

_WIDTH = 32


class Chains(GrowingGraph):
    """A random model: layers and functions, and random movement between them."""

    def model(self) -> onnx.ModelProto:
        rows = self._random.choice([8, 12, 32])
        value, shape = "x", [1, rows, _WIDTH]
        for _ in range(self._random.randint(2, 3)):
            value, shape = self._operator(value, shape)
            for _ in range(self._random.randint(1, 3)):
                value, shape = self._movement(value, shape)
        value, shape = self._operator(value, shape)
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows, _WIDTH])
        made = helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, "chains", [given], [made], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def _operator(self, value: str, shape: list[int]) -> tuple[str, list[int]]:
        kind = self._random.choice(["MatMul", "Softmax", "Sigmoid", "Mul"])
        if kind == "MatMul":
            wide = self._random.choice([16, 32, 48])
            weight = self._draws.standard_normal((shape[-1], wide)).astype(np.float32) / shape[-1] ** 0.5
            return self._node("MatMul", value, self._constant(weight)), [*shape[:-1], wide]
        if kind == "Mul":
            return self._node("Mul", value, self._constant(np.float32(1.25))), shape
        return self._node(kind, value, **({"axis": -1} if kind == "Softmax" else {})), shape

    def _movement(self, value: str, shape: list[int]) -> tuple[str, list[int]]:
        kind = self._random.choice(["Reshape", "Transpose", "Slice", "Concat", "Split", "Expand", "Pad"])
        axis = self._random.randrange(1, len(shape))
        if kind == "Transpose":
            axes = [0, *self._random.sample(range(1, len(shape)), len(shape) - 1)]
            return self._node("Transpose", value, perm=axes), [shape[each] for each in axes]
        if kind == "Slice":
            first, step = self._random.randrange(-(-shape[axis] // 2)), self._random.choice([1, 1, 2])
            bounds = (self._constant(np.array([each])) for each in (first, shape[axis], axis, step))
            extent = -(-(shape[axis] - first) // step)
            return self._node("Slice", value, *bounds), [*shape[:axis], extent, *shape[axis + 1 :]]
        if kind == "Concat" and shape[axis] <= _WIDTH:
            other = self._node("Tanh", value)
            return self._node("Concat", value, other, axis=axis), [*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]]
        if kind == "Split" and shape[axis] % 2 == 0:
            half = shape[axis] // 2
            name = f"v{len(self._nodes)}"
            node = helper.make_node(
                "Split", [value, self._constant(np.array([half, half]))], [name, f"{name}b"], axis=axis
            )
            self._nodes.append(node)
            joined = self._node("Add", name, f"{name}b")
            return joined, [*shape[:axis], half, *shape[axis + 1 :]]
        if kind == "Pad":
            pads = np.zeros(2 * len(shape), np.int64)
            pads[axis], pads[len(shape) + axis] = 1, 2
            return self._node("Pad", value, self._constant(pads)), [*shape[:axis], shape[axis] + 3, *shape[axis + 1 :]]
        parts = [part for part in (2, 3, 4, 8) if shape[axis] % part == 0]
        if len(shape) < 4 and parts:
            part = self._random.choice(parts)
            wanted = [*shape[:axis], part, shape[axis] // part, *shape[axis + 1 :]]
        else:
            wanted = [1, shape[1] * shape[2], *shape[3:]] if len(shape) > 3 else [1, shape[2], shape[1]]
        return self._node("Reshape", value, self._constant(np.array(wanted))), wanted


def wider(width: int) -> Accelerator:
    """The npu with a slower start of its loads, or with rows that are fewer: other orders and tiles are best there."""
    document = load_accelerator("npu").model_dump(mode="json")
    document["name"] = f"npu-{width}"
    for memory in document["memories"]:
        if memory["name"] == "v":
            memory["depth"] = width
    return Accelerator.model_validate(document)


def ran(model: onnx.ModelProto, accelerator: Accelerator, out: Path) -> tuple[Report, Program]:
    report = run_model(model.SerializeToString(), accelerator, Options(trace=False, schedule="quick"), out)
    with (out / "program.zip").open("rb") as file:
        return report, load_program(file)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "depth"), [(seed, (65536, 4096)[seed % 2]) for seed in range(4)])
def test_random_chains(seed: int, depth: int, tmp_path: Path) -> None:
    """It would catch an address or a stride that is wrong anywhere: the reference moves with numpy and onnxruntime."""
    report, _ = ran(Chains(seed).model(), wider(depth), tmp_path)
    assert report.verified is True


def steps_between(program: Program) -> int:
    """Steps of the host behind the first launch and ahead of the last."""
    kinds = [type(step) for step in program.steps]
    last = len(kinds) - kinds[::-1].index(Launch)
    return sum(kind is HostStep for kind in kinds[kinds.index(Launch) : last])


def ends_within_a_block(channels: int = 48, kernel: int = 1) -> onnx.ModelProto:
    """Two convolutions with a SiLU between, of 48 channels, which lie in two blocks of 32."""
    random, silu = np.random.default_rng(0), [("Sigmoid", ["c"], "s"), ("Mul", ["c", "s"], "m")]
    weights = {"w": (channels, 32, 1, 1), "v": (32, channels, kernel, kernel)}
    steps = [("Conv", ["x", "w"], "c"), *silu]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 32, 8, 8)) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [result], name=f"{op}_{result}") for op, inputs, result in steps]
        + [helper.make_node("Conv", ["m", "v"], ["y"], pads=[kernel // 2] * 4)],
        "g",
        [given],
        [made],
        [numpy_helper.from_array(random.normal(size=n).astype(np.float32), name) for name, n in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pixels() -> onnx.ModelProto:
    """Convolutions, between which channels become pixels and these channels, and are there several times."""
    random = np.random.default_rng(0)
    kernels = {"w": (128, 32), "v": (32, 32), "u": (32, 128), "t": (32, 32)}
    constants = {name: random.normal(size=(*size, 1, 1)).astype(np.float32) for name, size in kernels.items()}
    constants |= {"scales": np.array([1, 1, 2, 2], np.float32), "times": np.array([1, 1, 1, 3])}
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    steps = (
        ("Conv", "w", {}), ("DepthToSpace", "", {"blocksize": 2, "mode": "CRD"}), ("Conv", "v", {}),
        ("SpaceToDepth", "", {"blocksize": 2}), ("Conv", "u", {}), ("Resize", "scales", nearest), ("Tile", "times", {}),
        ("Conv", "t", {}),
    )  # fmt: skip
    nodes = []
    for number, (op, constant, attributes) in enumerate(steps):
        inputs = [f"v{number}", *([""] if op == "Resize" else []), *([constant] if constant else [])]
        nodes.append(helper.make_node(op, inputs, [f"v{number + 1}"], **attributes))
    ends = {"v0": [1, 32, 4, 6], f"v{len(steps)}": [1, 32, 8, 36]}
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items())
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "pixels", [given], [made], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def padded_with_ones() -> onnx.ModelProto:
    """Rows with a column of ones, as linear attention has them for its sums."""
    random = np.random.default_rng(0)
    constants = {name: random.normal(size=size).astype(np.float32) for name, size in (("w", (32, 32)), ("u", (33, 32)))}
    constants |= {"pads": np.array([0, 0, 0, 0, 0, 1]), "one": np.float32(1)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["v"]),
        helper.make_node("Sigmoid", ["v"], ["s"]),
        helper.make_node("Pad", ["s", "pads", "one"], ["p"]),
        helper.make_node("Softmax", ["p"], ["q"], axis=-1),
        helper.make_node("MatMul", ["q", "u"], ["y"]),
    ]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 32]) for name in "xy")
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "padded", [given], [made], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def neck(channels: int = 32) -> onnx.ModelProto:
    """A detector's neck: what is half as large is repeated beside what is not, for a convolution that pads."""
    random = np.random.default_rng(0)
    kernels = {"w": (channels, 32, 3, 3), "v": (32, channels, 3, 3), "u": (32, 32 + channels, 3, 3)}
    constants = {name: random.normal(size=size).astype(np.float32) for name, size in kernels.items()}
    constants["scales"] = np.array([1, 1, 2, 2], np.float32)
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}  # halves are rounded down
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["large"], pads=[1] * 4),
        helper.make_node("Relu", ["large"], ["large_relu"]),
        helper.make_node("Conv", ["large_relu", "v"], ["small"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["small"], ["small_relu"]),
        helper.make_node("Resize", ["small_relu", "", "scales"], ["up"], name="up", **nearest),
        helper.make_node("Concat", ["up", "large_relu"], ["both"], name="both", axis=1),
        helper.make_node("Conv", ["both", "u"], ["y"], pads=[1] * 4),
    ]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 12, 8]) for name in "xy")
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "neck", [given], [made], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def fire(left: int = 32, right: int = 64) -> onnx.ModelProto:
    """Two convolutions side by side, whose results lie in one, as SqueezeNet has them."""
    random = np.random.default_rng(0)
    kernels = {"w": (left, 32, 1, 1), "v": (right, 32, 1, 1), "u": (32, left + right, 1, 1)}
    stored = [numpy_helper.from_array(random.normal(size=n).astype(np.float32), name) for name, n in kernels.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Conv", ["x", "v"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["both"], name="both", axis=1),
        helper.make_node("Conv", ["both", "u"], ["y"]),
    ]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 8, 6]) for name in "xy")
    graph = helper.make_graph(nodes, "fire", [given], [made], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def parted(left: int, right: int) -> onnx.ModelProto:
    """A convolution whose channels are split, a convolution of each part, and their sum."""
    random = np.random.default_rng(0)
    kernels = {"w": (left + right, 32, 1, 1), "v": (32, left, 1, 1), "u": (32, right, 1, 1)}
    stored = [numpy_helper.from_array(random.normal(size=n).astype(np.float32), name) for name, n in kernels.items()]
    stored.append(numpy_helper.from_array(np.array([left, right]), "parts"))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Split", ["a", "parts"], ["b", "c"], name="split", axis=1),
        helper.make_node("Conv", ["b", "v"], ["d"]),
        helper.make_node("Conv", ["c", "u"], ["e"]),
        helper.make_node("Add", ["d", "e"], ["y"]),
    ]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 8, 6]) for name in "xy")
    graph = helper.make_graph(nodes, "parted", [given], [made], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def between(node: onnx.NodeProto, kernel: int = 1) -> onnx.ModelProto:
    """Two convolutions, of which the second one reads ``b``, which a node makes of ``a``."""
    random = np.random.default_rng(0)
    kernels = {"w": (32, 32, 1, 1), "v": (32, 32, kernel, kernel)}
    stored = [numpy_helper.from_array(random.normal(size=n).astype(np.float32), name) for name, n in kernels.items()]
    stored.append(numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads"))
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), node, helper.make_node("Conv", ["b", "v"], ["y"])]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 8, 6]) for name in "xy")
    graph = helper.make_graph(nodes, "between", [given], [made], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


NETWORKS: dict[str, tuple[Callable[[], onnx.ModelProto], int]] = {
    "bert": (lambda: bert(layers=1, width=64, heads=2, tokens=32), 0),  # the mask, of int64, is converted before
    "vit": (lambda: vit(layers=1, width=64, heads=2, image=48), 0),
    "gpt2": (lambda: gpt2_block(width=64, heads=2, tokens=32), 0),
    "llama": (lambda: llama_block(width=128, heads=4, groups=2, tokens=32), 0),
    "pixels": (pixels, 0),
    "padded": (padded_with_ones, 0),
    "mirrored": (lambda: between(helper.make_node("Pad", ["a", "pads"], ["b"], "pad", mode="reflect"), 3), 0),
    "responses": (lambda: between(helper.make_node("LRN", ["a"], ["b"], "lrn", size=5, alpha=0.1)), 0),
    "neck": (neck, 0),
    "blocks": (lambda: neck(64), 0),
    "fire": (fire, 0),
    "straddling": (lambda: fire(48, 48), 0),  # the second one's blocks begin within the first one's last
    "many blocks": (lambda: fire(240, 240), 0),  # each of which begins within one, and ends within the next
    "parted": (lambda: parted(40, 56), 0),  # the second part begins within a block
    "channels": (ends_within_a_block, 0),  # by way of a tensor that two programs make, one for each block
    "taps": (lambda: ends_within_a_block(24, 3), 0),  # whose patches would fill seven blocks, and not nine
}
OFTEN = ("gpt2", "channels", "mirrored", "blocks", "straddling", "parted")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in OFTEN else pytest.mark.all) for name in NETWORKS],
)
def test_no_host_between_launches(name: str, tmp_path: Path) -> None:
    """It would catch movement that goes back to the host, in networks whose heads fill elements of the memories."""
    model, between = NETWORKS[name]
    report, program = ran(model(), load_accelerator("npu"), tmp_path)
    assert report.verified is True
    assert steps_between(program) == between, report.host_ops


@pytest.mark.slow
def test_parts_are_stored_where_a_layer_reads_them(tmp_path: Path) -> None:
    """It would catch a concatenation in the model's order, which is moved into a layer's tiles behind."""
    report, program = ran(neck(), load_accelerator("npu"), tmp_path)
    moves = [launch.nodes for launch in program.steps if isinstance(launch, Launch) and launch.op == "move"]
    assert [nodes for nodes in moves if nodes] == [("up", "both")]
    assert not {"up", "both"} & {host.node for host in report.host_ops}


@pytest.mark.slow
def test_channels_in_two_blocks_are_loaded_block_by_block(tmp_path: Path) -> None:
    """It would catch an axis of 64 channels, of which a load has two pieces for each pixel: 12,632 cycles."""
    report, _ = ran(neck(64), load_accelerator("npu"), tmp_path)
    (requantised,) = (layer for layer in report.layers if layer.op == "vector" and "both" in layer.nodes)
    assert requantised.cycles < 1000


def test_windows_of_rows_are_gathered_by_loads(tmp_path: Path) -> None:
    """It would catch places in a grid that no load is told of, as torch's unfold makes them, and rows missed."""
    random = np.random.default_rng(0)
    places = 2 * np.arange(15)[:, None] + np.arange(4)
    stored = {
        "first": random.normal(size=(32, 32)).astype(np.float32),
        "second": random.normal(size=(32, 16)).astype(np.float32),
        "places": places,
        "rows": np.array([60, 32]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["made"], name="made"),
        helper.make_node("Gather", ["made", "places"], ["windows"], name="windows", axis=0),
        helper.make_node("Reshape", ["windows", "rows"], ["flat"], name="flat"),
        helper.make_node("MatMul", ["flat", "second"], ["y"], name="y"),
    ]
    ends = [
        helper.make_tensor_value_info(each, TensorProto.FLOAT, size) for each, size in (("x", [32, 32]), ("y", None))
    ]
    constants = [numpy_helper.from_array(value, each) for each, value in stored.items()]
    graph = helper.make_graph(nodes, "windows", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report, program = ran(model, load_accelerator("npu"), tmp_path)
    assert report.verified is True
    assert steps_between(program) == 0


@pytest.mark.parametrize(
    ("shape", "kernel", "said"),
    [
        ((1, 3, 16, 16), (3, 3), {"strides": [2, 2], "pads": [1] * 4}),
        ((2, 3, 17, 23), (5, 3), {"strides": [1, 2], "pads": [0, 1, 2, 3]}),
        ((1, 5, 12, 12), (3, 3), {"dilations": [2, 2]}),
        ((1, 1, 20, 20), (7, 7), {"strides": [3, 3], "pads": [3] * 4}),
        ((1, 40, 1, 30), (1, 3), {"pads": [0, 1, 0, 1]}),
        ((1, 1, 49, 10), (10, 4), {"strides": [2, 2], "pads": [4, 1, 5, 1]}),
        ((2, 3, 31, 11), (7, 2), {"strides": [3, 1], "dilations": [2, 1], "pads": [1, 2, 3, 0]}),
    ],
)
def test_taps_of_an_input_are_runs_that_loads_read(
    shape: tuple[int, ...], kernel: tuple[int, int], said: dict[str, list[int]], tmp_path: Path
) -> None:
    """It would catch a first layer whose patches the host lays out, and loads that begin beside a run or leave one."""
    random = np.random.default_rng(0)
    weight = numpy_helper.from_array(random.normal(size=(32, shape[1], *kernel)).astype(np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="stem", **said)]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "stem", [given], [made], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report, program = ran(model, load_accelerator("npu"), tmp_path)
    assert report.verified is True
    assert steps_between(program) == 0
    assert not report.host_ops
