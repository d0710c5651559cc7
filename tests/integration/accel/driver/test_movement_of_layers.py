"""Movement between layers on machines without a vector unit: loads and stores do it, and the host what these cannot."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.program.program_model import HostStep, Launch, Program
from accel.program_files.program_container import load_program
from accel.report.documents.report_documents import Report
from tests.helpers.marking import rest_all
from tests.integration.accel.driver.test_movement import Chains

ROWS, HEADS, HEAD = 32, 2, 32


class LayerChains(Chains):
    """A random model of what these machines compute, and random movement between it."""

    def _operator(self, value: str, shape: list[int]) -> tuple[str, list[int]]:
        kind = self._random.choice(["MatMul", "MatMul", "Add", "Mul", "Relu"])
        if kind == "MatMul":
            wide = self._random.choice([16, 32, 48, 64])
            weight = self._draws.standard_normal((shape[-1], wide)).astype(np.float32) / shape[-1] ** 0.5
            return self._node("MatMul", value, self._constant(weight)), [*shape[:-1], wide]
        if kind == "Add":
            return self._node("Add", value, self._node("Relu", value)), shape
        return self._node(kind, value, *([self._constant(np.float32(1.25))] if kind == "Mul" else [])), shape


def ran(model: onnx.ModelProto, name: str, out: Path) -> tuple[Report, Program]:
    options = Options(trace=False, schedule="quick", launches="separate")
    report = run_model(model.SerializeToString(), load_accelerator(name), options, out)
    with (out / "program.zip").open("rb") as file:
        return report, load_program(file)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vta", "gemmini", "conv-engine", "mvin-mvout"])
@pytest.mark.parametrize("seed", rest_all([26, 29, *range(12)], keep=3))  # the first two pad results
def test_random_chains(seed: int, name: str, tmp_path: Path) -> None:
    """It would catch an address or a stride that is wrong anywhere: the reference moves with numpy and onnxruntime."""
    report, program = ran(LayerChains(seed).model(), name, tmp_path)
    assert report.verified is (True if any(isinstance(step, Launch) for step in program.steps) else None)


Node = tuple[str, list[str], list[str], dict[str, object]]
"""An operator, what it reads and makes, and its attributes."""


def graph_of(nodes: list[Node], constants: dict[str, object], result: list[int]) -> onnx.ModelProto:
    """A model of one input ``x`` and one output ``y``, of shape ``result``; of weights the constants are the shapes."""
    draws = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(
            draws.normal(0, 0.2, value).astype(np.float32) if isinstance(value, tuple) else np.asarray(value), name
        )
        for name, value in constants.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, reads, makes, name=makes[0], **more) for op, reads, makes, more in nodes],
        "moved",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS, HEADS * HEAD])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def parts_and_heads() -> onnx.ModelProto:
    """Parts of a product go through layers of their own, and lie side by side as heads to another."""
    wide = HEADS * HEAD
    return graph_of(
        [
            ("MatMul", ["x", "both"], ["wide"], {}),
            ("Split", ["wide"], ["left", "right"], {"axis": 2}),
            ("MatMul", ["left", "first"], ["one"], {}),
            ("MatMul", ["right", "second"], ["other"], {}),
            ("Concat", ["one", "other"], ["joined"], {"axis": 2}),
            ("Reshape", ["joined", "heads"], ["apart"], {}),
            ("Transpose", ["apart"], ["turned"], {"perm": [0, 2, 1, 3]}),
            ("Mul", ["turned", "factor"], ["scaled"], {}),
            ("MatMul", ["scaled", "last"], ["y"], {}),
        ],
        {
            "both": (wide, 2 * wide),
            "first": (wide, wide // 2),
            "second": (wide, wide // 2),
            "heads": np.array([1, ROWS, HEADS, HEAD]),
            "factor": np.float32(0.3),
            "last": (HEAD, HEAD),
        },
        [1, HEADS, ROWS, HEAD],
    )


def keys_and_queries() -> onnx.ModelProto:
    """Scores of attention whose keys are scaled behind their transposition, as torch exports them."""
    wide = HEADS * HEAD
    return graph_of(
        [
            ("MatMul", ["x", "query"], ["q"], {}),
            ("MatMul", ["x", "key"], ["k"], {}),
            ("Reshape", ["q", "heads"], ["q_heads"], {}),
            ("Reshape", ["k", "heads"], ["k_heads"], {}),
            ("Transpose", ["q_heads"], ["q_turned"], {"perm": [0, 2, 1, 3]}),
            ("Transpose", ["k_heads"], ["k_turned"], {"perm": [0, 2, 3, 1]}),
            ("Mul", ["q_turned", "root"], ["q_scaled"], {}),
            ("Mul", ["k_turned", "root"], ["k_scaled"], {}),
            ("MatMul", ["q_scaled", "k_scaled"], ["y"], {}),
        ],
        {
            "query": (wide, wide),
            "key": (wide, wide),
            "heads": np.array([1, ROWS, HEADS, HEAD]),
            "root": np.float32(HEAD**-0.25),
        },
        [1, HEADS, ROWS, ROWS],
    )


def between(program: Program) -> list[HostStep | Launch]:
    """The steps from the first launch to the last."""
    places = [place for place, step in enumerate(program.steps) if isinstance(step, Launch)]
    return list(program.steps[places[0] : places[-1] + 1])


@pytest.mark.parametrize("name", ["vta", "gemmini"])
def test_parts_are_loaded_and_heads_are_stored_where_layers_read_them(name: str, tmp_path: Path) -> None:
    """It would catch layers between which the host moves what a DMA can."""
    report, program = ran(parts_and_heads(), name, tmp_path)
    assert report.verified is True
    assert not [step for step in between(program) if isinstance(step, HostStep)]
    assert {each.op for each in report.host_ops} == {"QuantizeLinear", "DequantizeLinear"}


def test_transposed_keys_are_stored_as_weights(tmp_path: Path) -> None:
    """It would catch keys that are scaled as they are transposed: the summed axis is inside VTA's tiles of weights."""
    report, program = ran(keys_and_queries(), "vta", tmp_path)
    assert report.verified is True
    assert not [step for step in between(program) if isinstance(step, HostStep)]


def padded_between_layers(pads: list[int], rows: int, columns: int) -> onnx.ModelProto:
    """The result of a product, which ``pads`` enlarge, goes through another one."""
    wide = HEADS * HEAD
    return graph_of(
        [
            ("MatMul", ["x", "first"], ["narrow"], {}),
            ("Pad", ["narrow", "pads"], ["padded"], {}),
            ("MatMul", ["padded", "second"], ["y"], {}),
        ],
        {"first": (wide, 16), "pads": np.array(pads), "second": (columns, wide)},
        [1, rows, wide],
    )


@pytest.mark.parametrize("name", ["vta", "gemmini", "npu"])
def test_padded_rows_are_stored_where_a_layer_reads_them(name: str, tmp_path: Path) -> None:
    """It would catch rows around a result that the host puts there, or that hold another number than zero's."""
    report, program = ran(padded_between_layers([0, 1, 0, 0, 2, 0], ROWS + 3, 16), name, tmp_path)
    assert report.verified is True
    assert not [step for step in between(program) if isinstance(step, HostStep)]


@pytest.mark.parametrize(("name", "by_bytes"), [("vta", False), ("gemmini", True), ("mvin-mvout", False)])
def test_results_are_stored_from_within_a_block_where_stores_count_bytes(
    name: str, by_bytes: bool, tmp_path: Path
) -> None:
    """It would catch an address that is rounded down to an element of a memory, and a host that is not needed."""
    report, program = ran(padded_between_layers([0, 0, 1, 0, 0, 2], ROWS, 16 + 3), name, tmp_path)
    assert report.verified is True
    nodes = {node for step in between(program) if isinstance(step, HostStep) for node in step.nodes}
    assert ("padded" not in nodes) == by_bytes


def queries_and_keys_of_heads() -> onnx.ModelProto:
    """A product whose columns are by head, and within a head queries, keys and values, as Bloom's are."""
    wide = HEADS * HEAD
    parts = [("Gather", ["apart", name], [f"{name}_heads"], {"axis": 3}) for name in ("query", "key")]
    rows = [("Reshape", [f"{name}_heads", "rows"], [f"{name}_rows"], {}) for name in ("query", "key")]
    return graph_of(
        [
            ("MatMul", ["x", "all"], ["joined"], {}),
            ("Reshape", ["joined", "heads"], ["apart"], {}),
            *parts,
            *rows,
            ("MatMul", ["query_rows", "first"], ["one"], {}),
            ("MatMul", ["key_rows", "second"], ["other"], {}),
            ("Add", ["one", "other"], ["y"], {}),
        ],
        {
            "all": (wide, 3 * wide),
            "heads": np.array([1, ROWS, HEADS, 3, HEAD]),
            "query": np.array(0),
            "key": np.array(1),
            "rows": np.array([1, ROWS, wide]),
            "first": (wide, wide),
            "second": (wide, wide),
        },
        [1, ROWS, wide],
    )


@pytest.mark.parametrize("name", ["vta", "gemmini", "npu"])
def test_dimensions_that_cut_through_tiles(name: str, tmp_path: Path) -> None:
    """It would catch a result whose blocks are two by three by two, of which a tile of four is none."""
    report, program = ran(queries_and_keys_of_heads(), name, tmp_path)
    assert report.verified is True
    assert not [step for step in between(program) if isinstance(step, HostStep)]
