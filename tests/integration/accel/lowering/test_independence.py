"""The passes read the accelerator's document and know none of its names."""

import re
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.catalog.load_accelerator import check_accelerator, load_accelerator
from examples.conv224 import conv224
from examples.single import Conv, conv_model
from tests.helpers.models.build_models import build

VTA = load_accelerator("vta")
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


def new_names() -> dict[str, str]:
    """Another name for every memory, scope, pragma, unit, instruction and field."""
    names = {memory.name for memory in VTA.memories} | {memory.scope for memory in VTA.memories}
    names |= set(VTA.units) | VTA.pragmas
    for instruction in VTA.instructions:
        names |= {instruction.name} | {field.name for field in instruction.fields}
        if isinstance(instruction, Compute) and instruction.microops is not None:
            names |= {field.name for field in instruction.microops.fields} | set(instruction.operands)
    table = {name: f"q{index}" for index, name in enumerate(sorted(names))}
    table |= {memory.scope: f"local.{table[memory.name]}" for memory in VTA.memories}
    return table | {pragma: f"pragma_{table[pragma]}" for pragma in VTA.pragmas}


def rename(node: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(node, dict):
        return {
            names.get(name, name) if key in MAPS else name: rename(value, names, name if key not in MAPS else "")
            for name, value in node.items()
        }
    if key == "does":
        return re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), node)
    if isinstance(node, list | tuple):
        return [rename(value, names, key) for value in node]
    return names.get(node, node) if isinstance(node, str) and key not in WORDS else node


@pytest.mark.parametrize(
    "model", [conv224(), conv_model(Conv(40, 24, 17, 9, kernel=(5, 3), strides=(2, 2)))], ids=["conv224", "strided"]
)
def test_another_vocabulary_gives_the_same_instructions(model: onnx.ModelProto) -> None:
    document = rename(VTA.model_dump(exclude={"name", "title", "family", "source"}), new_names())
    other = Accelerator.model_validate(document | VTA.model_dump(include={"name", "title", "family", "source"}))
    check_accelerator(other)
    assert not {copy.memory for copy in other.instructions if isinstance(copy, Copy)} & {"inp", "wgt", "acc", "uop"}
    np.testing.assert_array_equal(build(model, other).words, build(model, VTA).words)
