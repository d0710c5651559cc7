"""The passes read the accelerator's document and know none of its names."""

from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator, Contract, Copy, Map
from accel.catalog import check_accelerator, load_accelerator
from examples.conv224 import conv224
from examples.single import Conv, conv_model
from tests.accel.lowering.build import build

VTA = load_accelerator("vta")
MAPS = {"pop", "push", "factors", "operands", "queue_depths"}  # whose keys are names of the document, not of the schema
WORDS = {"direction", "kind", "dtype", "dram_dtype"}  # whose values are the schema's


def new_names() -> dict[str, str]:
    """Another name for every memory, scope, pragma, unit, instruction and field."""
    names = {memory.name for memory in VTA.memories} | {memory.scope for memory in VTA.memories}
    names |= set(VTA.units) | VTA.pragmas
    for instruction in VTA.instructions:
        names |= {instruction.name} | {field.name for field in instruction.fields}
        if isinstance(instruction, Contract | Map):
            names |= {field.name for field in instruction.microops.fields}
    table = {name: f"q{index}" for index, name in enumerate(sorted(names))}
    table |= {memory.scope: f"local.{table[memory.name]}" for memory in VTA.memories}
    return table | {pragma: f"pragma_{table[pragma]}" for pragma in VTA.pragmas}


def rename(node: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(node, dict):
        return {
            names.get(name, name) if key in MAPS else name: rename(value, names, name if key not in MAPS else "")
            for name, value in node.items()
        }
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
