"""The passes read the accelerator's document and know none of its names."""

import re
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.catalog.load_accelerator import check_accelerator, load_accelerator
from accel.program.program_model import Launch
from examples.conv224 import conv224
from examples.graph import Graph
from examples.single import Conv, conv_model
from tests.helpers.models.build_models import build

VTA, NPU = load_accelerator("vta"), load_accelerator("npu")
MAPS = {
    "pop",
    "push",
    "factors",
    "steps",
    "operands",
    "when",
    "queue_depths",
}  # whose keys are names of the document, not of the schema
WORDS = {"direction", "kind", "dtype", "dram_dtype", "dram_unit", "type"}  # whose values are the schema's


COSTS = {"does", "cycles", "energy", "bus_cycles"}  # texts with names in them
SIDES = {"sram", "dram"}  # the language's names of what a copy moves


def new_names(accelerator: Accelerator) -> dict[str, str]:
    """Another name for every memory, scope, pragma, unit, instruction, operand, operation and field."""
    names = {memory.name for memory in accelerator.memories} | {memory.scope for memory in accelerator.memories}
    names |= set(accelerator.units) | accelerator.pragmas
    for instruction in accelerator.instructions:
        names |= {instruction.name} | {field.name for field in instruction.fields}
        if isinstance(instruction, Compute):
            names |= set(instruction.operands)
            names |= (
                {field.name for field in instruction.microops.fields} if instruction.microops is not None else set()
            )
    table = {name: f"q{index}" for index, name in enumerate(sorted(names))}
    table |= {memory.scope: f"local.{table[memory.name]}" for memory in accelerator.memories}
    return table | {pragma: f"pragma_{table[pragma]}" for pragma in accelerator.pragmas}


def rename(node: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(node, dict):
        return {
            names.get(name, name) if key in MAPS else name: rename(value, names, name if key not in MAPS else "")
            for name, value in node.items()
        }
    if key in COSTS and isinstance(node, str):
        known = {name: other for name, other in names.items() if key != "does" or name not in SIDES}
        return re.sub(r"[A-Za-z_]\w*", lambda found: known.get(found[0], found[0]), node)
    if isinstance(node, list | tuple):
        return [rename(value, names, key) for value in node]
    return names.get(node, node) if isinstance(node, str) and key not in WORDS else node


def renamed(accelerator: Accelerator) -> Accelerator:
    """The document with another vocabulary, which says what it is as before."""
    kept = {"name", "title", "family", "source"}
    document = rename(accelerator.model_dump(exclude=kept), new_names(accelerator))
    other = Accelerator.model_validate(document | accelerator.model_dump(include=kept))
    check_accelerator(other)
    return other


def attention() -> onnx.ModelProto:
    """A layer norm, a product of floats, which is the host's, a softmax, and a GELU by its parts."""
    random, graph = np.random.default_rng(4), Graph("attention")
    gain = graph.constant("gain", random.uniform(0.5, 2, 32).astype(np.float32))
    x = graph.node("LayerNormalization", "norm", [graph.input("x", (1, 24, 32)), gain])
    keys = graph.constant("keys", random.normal(0, 0.3, (32, 48)).astype(np.float32))
    weights = graph.node("Softmax", "softmax", [graph.node("MatMul", "scores", [x, keys])])
    root = graph.constant("root", np.array(np.sqrt(2), np.float32))
    error = graph.node("Erf", "erf", [graph.node("Div", "part", [weights, root])])
    graph.node("Mul", "gelu", [weights, error], "y")
    graph.output("y", (1, 24, 48))
    return graph.model()


def test_another_vocabulary_gives_the_same_vector_programs() -> None:
    """Catches a pass that knows a name of a machine with a vector unit, or of a function of it."""
    other, model = renamed(NPU), attention()
    program = build(model, NPU)
    assert any(step.op == "vector" for step in program.steps if isinstance(step, Launch))
    np.testing.assert_array_equal(build(model, other).words, program.words)


LAYER = conv_model(Conv(40, 24, 17, 9, kernel=(5, 3), strides=(2, 2)))


@pytest.mark.parametrize(
    ("model", "accelerator"),
    [(conv224(), VTA), (LAYER, VTA), (LAYER, NPU)],
    ids=["conv224", "strided", "strided on npu"],
)
def test_another_vocabulary_gives_the_same_instructions(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    other = renamed(accelerator)
    assert not {copy.memory for copy in other.instructions if isinstance(copy, Copy)} & {
        memory.name for memory in accelerator.memories
    }
    program = build(model, accelerator)
    assert any(step.macs for step in program.steps if isinstance(step, Launch))
    np.testing.assert_array_equal(build(model, other).words, program.words)
