"""Conditions between two layers, on machines with and without instructions that compare."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options

Nodes = list[onnx.NodeProto]


def selecting(*comparisons: tuple[str, str], otherwise: str = "b") -> Nodes:
    """``c = a if all of the comparisons are so else otherwise``."""
    found = [helper.make_node(op, ["a", other], [f"so{at}"]) for at, (op, other) in enumerate(comparisons)]
    last = "so0"
    for at in range(1, len(found)):
        found.append(helper.make_node("And", [last, f"so{at}"], [f"both{at}"]))
        last = f"both{at}"
    return [*found, helper.make_node("Where", [last, "a", otherwise], ["c"])]


def between(nodes: Nodes) -> onnx.ModelProto:
    """Nodes that make ``c`` of two layers ``a`` and ``b``, and what a third one makes of that."""
    random = np.random.default_rng(0)
    stored = [
        numpy_helper.from_array(random.normal(size=(48, 48)).astype(np.float32), name) for name in ("u", "v", "w")
    ]
    stored += [numpy_helper.from_array(np.float32(number), name) for name, number in (("low", -0.5), ("high", 1.5))]
    layers = [helper.make_node("MatMul", pair, [made]) for pair, made in ((["x", "u"], "a"), (["x", "v"], "b"))]
    last = helper.make_node("MatMul", ["c", "w"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [20, 48]) for name in ("x", "y")]
    graph = helper.make_graph([*layers, *nodes, last], "conditions", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


CASES: dict[str, Callable[[], Nodes]] = {
    "greater": lambda: selecting(("Greater", "b")),
    "at_least": lambda: selecting(("GreaterOrEqual", "b")),
    "at_most_a_number": lambda: selecting(("LessOrEqual", "high"), otherwise="low"),
    "between_two_numbers": lambda: selecting(("Less", "high"), ("Greater", "low")),
    "not_above": lambda: [
        helper.make_node("Greater", ["a", "high"], ["so"]),
        helper.make_node("Not", ["so"], ["not"]),
        helper.make_node("Cast", ["not"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["factor", "b"], ["c"]),
    ],
    "bools_of_numbers": lambda: [
        helper.make_node("Relu", ["a"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["so"], to=TensorProto.BOOL),
        helper.make_node("Cast", ["so"], ["again"], to=TensorProto.BOOL),
        helper.make_node("Where", ["again", "low", "b"], ["c"]),
    ],
    "sign": lambda: [helper.make_node("Sign", ["a"], ["c"])],
    "shrink": lambda: [helper.make_node("Shrink", ["a"], ["c"], lambd=0.5, bias=0.25)],
    "slopes": lambda: [helper.make_node("PRelu", ["a", "b"], ["c"])],
}


@pytest.mark.parametrize("name", CASES)
def test_comparisons_stay_on_a_machine_that_compares(name: str, tmp_path: Path) -> None:
    """Catches bools that a program leaves to the host, and ends of a selection that change places."""
    model = between(CASES[name]()).SerializeToString()
    report = run_model(model, load_accelerator("npu"), Options(trace=False, schedule="quick"), tmp_path)
    assert report.verified
    assert {each.op for each in report.host_ops} <= {"QuantizeLinear", "DequantizeLinear"}


def test_what_no_instruction_compares_is_said_to_be_so(tmp_path: Path) -> None:
    """Catches a machine whose report lacks the reason, or whose program compares without an instruction for it."""
    accelerator = load_accelerator("npu")
    instructions = tuple(each for each in accelerator.instructions if each.name != "vector_select")
    model = between(CASES["greater"]()).SerializeToString()
    options = Options(trace=False, schedule="quick")
    report = run_model(model, accelerator.model_copy(update={"instructions": instructions}), options, tmp_path)
    (where,) = [each for each in report.host_ops if each.op == "Where"]
    assert report.verified
    assert "no instruction does select(" in where.reason
