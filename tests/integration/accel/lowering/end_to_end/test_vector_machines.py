"""Vector units of other shapes than the preset's: lanes in elements, rows' numbers in a memory of their own.

It would catch a cover that knows one memory, loops that cut through an element, and reasons that are not so.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Report

LANES = 16
PAIRS = {"add": "A[l] + B[{}]", "subtract": "A[l] - B[{}]", "multiply": "A[l] * B[{}]", "divide": "A[l] / B[{}]"}
ONE = {name: f"{name}({{}})" for name in ("exp", "rsqrt", "sigmoid")}
ONE |= {"plus": "{} + immediate", "times": "{} * immediate", "over": "{} / immediate", "fill": "immediate"}
FIELDS = [(name, 16 * place) for place, name in enumerate(("y", "y_row", "y_column", "a", "a_row", "a_column"), 1)]
MORE = [(name, 16 * place) for place, name in enumerate(("b", "b_row", "b_column"), 7)]


def compute(
    number: int, name: str, memories: dict[str, str], does: dict[str, str], *, steps: dict[str, str]
) -> dict[str, Any]:
    """An instruction over rows and elements of rows, which ``steps`` says of each operand."""
    fields = [{"name": "opcode", "lsb": 0, "bits": 8, "value": number}, {"name": "op", "lsb": 8, "bits": 8}]
    named = {operand.lower() for operand in memories}
    fields += [
        {"name": field, "lsb": lsb, "bits": 16} for field, lsb in (*FIELDS, *MORE) if field.split("_")[0] in named
    ]
    fields += [{"name": "rows", "lsb": 160, "bits": 16}, {"name": "columns", "lsb": 176, "bits": 16}]
    fields += [{"name": "immediate", "lsb": 192, "bits": 32, "type": "float32"}]
    texts = " ".join(does.values())
    return {
        "name": name,
        "kind": "compute",
        "pragma": "pragma_vector",
        "unit": "vector",
        "operands": {operand: {"memory": memory, "address": operand.lower()} for operand, memory in memories.items()},
        "operations": [
            {"name": each, "when": {"op": place}, "does": text} for place, (each, text) in enumerate(does.items())
        ],
        "loops": [
            {"extent": "rows", "factors": {operand: f"{operand.lower()}_row" for operand in memories}},
            {
                "extent": "columns",
                "factors": {each: f"{each.lower()}_column" for each in memories if steps[each] == "columns"},
            },
        ],
        "fields": [each for each in fields if each["name"] != "immediate" or "immediate" in texts],
        "cycles": "rows * columns + 8",
    }


def machine(*, without: str = "") -> Accelerator:
    """The preset with elements of 16 numbers, and a memory ``s`` for numbers of rows; ``without`` an operation."""
    document = load_accelerator("npu").model_dump(mode="json", exclude_none=True)
    memories = [dict(each) for each in document["memories"]]
    next(each for each in memories if each["name"] == "v").update(shape=[LANES], depth=4096)
    memories.append({"name": "s", "scope": "local.s", "dtype": "float32", "shape": [1], "depth": 2048, "ports": 3})
    kept = [each for each in document["instructions"] if not each["name"].startswith("vector")]
    wide, row = {"Y": "columns", "A": "columns", "B": "columns"}, {"Y": "columns", "A": "columns", "B": "row"}
    pairs = [{name: "Y[l] = " + text.format(index) for name, text in PAIRS.items()} for index in ("l", "0")]
    on_v, on_s = ({name: f"Y[{at}] = " + text.format(f"A[{at}]") for name, text in ONE.items()} for at in ("l", "0"))
    reductions = {"sum": "Y[0] += A[l]", "max": "Y[0] max= A[l]"}
    made = [
        compute(40, "vv", {"Y": "v", "A": "v", "B": "v"}, pairs[0], steps=wide),
        compute(41, "vs", {"Y": "v", "A": "v", "B": "s"}, pairs[1], steps=row),
        compute(42, "v1", {"Y": "v", "A": "v"}, on_v, steps=wide),
        compute(43, "s1", {"Y": "s", "A": "s"}, on_s, steps=wide),
        compute(44, "reduce", {"Y": "s", "A": "v"}, reductions, steps={"Y": "row", "A": "columns"}),
    ]
    for each in made:
        each["operations"] = [one for one in each["operations"] if one["name"] != without]
    document |= {"name": "lanes", "memories": memories, "instructions": [*kept, *made]}
    return Accelerator.model_validate(document)


def row_operators(rows: int, columns: int) -> onnx.ModelProto:
    """A softmax behind a layer norm."""
    gain = helper.make_tensor("gain", TensorProto.FLOAT, [columns], np.linspace(0.5, 2, columns))
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gain"], ["h"], name="norm", epsilon=1e-3),
        helper.make_node("Softmax", ["h"], ["y"], name="softmax"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, rows, columns]) for name in "xy"]
    graph = helper.make_graph(nodes, "rows", values[:1], values[1:], [gain])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: onnx.ModelProto, accelerator: Accelerator, folder: Path) -> Report:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return run_model(path, accelerator, Options(), folder)


@pytest.mark.parametrize("rows", [3, 97])
def test_lanes_lie_in_elements_and_numbers_of_rows_elsewhere(rows: int, tmp_path: Path) -> None:
    report = run(row_operators(rows, 48), machine(), tmp_path)
    assert report.verified
    assert not report.host_ops
    assert all(found.independent for found in report.floats)


def test_rows_of_no_whole_elements_are_the_hosts_and_the_reason_says_so(tmp_path: Path) -> None:
    report = run(row_operators(3, 50), machine(), tmp_path)
    assert not report.floats
    assert {node.node for node in report.host_ops} == {"norm", "softmax"}
    assert all("its rows are no whole elements of v, of 16 numbers each" in node.reason for node in report.host_ops)


def test_what_no_instruction_does_is_the_hosts_and_the_rest_is_not(tmp_path: Path) -> None:
    report = run(row_operators(3, 48), machine(without="rsqrt"), tmp_path)
    assert report.verified
    assert [(node.node, "no instruction does rsqrt(x)" in node.reason) for node in report.host_ops] == [("norm", True)]
    assert [found.launch for found in report.floats] == ["softmax"]


def test_what_is_said_otherwise_needs_no_copy(tmp_path: Path) -> None:
    """It would catch a value that is computed, and not brought to where it belongs, as no instruction copies floats."""
    document = load_accelerator("npu").model_dump(mode="json", exclude_none=True)
    for each in document["instructions"]:
        if each["name"] == "vector_function":
            each["operations"] = [one for one in each["operations"] if one["name"] == "exp"]
    accelerator = Accelerator.model_validate(document | {"name": "few"})
    operators = ("Sigmoid", "Tanh", "Neg", "Abs", "Reciprocal", "Relu")
    nodes = [helper.make_node(op, ["x"], [f"y{place}"], name=op) for place, op in enumerate(operators)]
    names = ["x", *(f"y{place}" for place in range(len(operators)))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 37]) for name in names]
    graph = helper.make_graph(nodes, "few", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report = run(model, accelerator, tmp_path)
    assert report.verified
    assert not report.host_ops, report.host_ops
