"""What parts of a document must agree on, whatever the family."""

import copy
from typing import Any

import numpy as np
import pytest

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator, SimulationError
from accel.isa.decode import decode
from tests.helpers.documents.parts_document import document
from tests.reference.encode import encode

MVIN, PRELOAD, GO, MATMUL = (("instructions", index) for index in range(4))
Place = tuple[str | int, ...]


def made(changes: dict[Place, Any]) -> Accelerator:
    changed: Any = copy.deepcopy(document())
    for path, value in changes.items():
        node = changed
        for part in path[:-1]:
            node = node[part]
        node[path[-1]] = value
    return Accelerator.model_validate(changed)


def test_the_document_agrees_with_itself() -> None:
    check_document(made({}))


FINISH = {"kind": "finish", "name": "finish", "unit": "array", "sequence": ["go"]}
ONE, TWO = {"name": "one", "does": "C[j] = 0"}, {"name": "two", "does": "C[j] = 0"}
BY_ROLE, ALIKE = [ONE, TWO | {"when": {"go.n": 1}}], [ONE, TWO | {"when": {"go.code": 3}}]
WRONG: dict[str, tuple[Place, Any, str, str]] = {
    "a sequence of what is none": ((*MATMUL, "sequence"), ["go", "stop"], "3.sequence.1", "there are preload, go"),
    "a sequence of a copy": ((*MATMUL, "sequence"), ["mvin", "go"], "3.sequence.0", "of kind part mvin"),
    "a part twice": ((*MATMUL, "sequence"), ["go", "go"], "3.sequence.1", "two called go"),
    "a finish of parts": ((*MVIN,), FINISH, "0.sequence", "only a copy, a compute or a layer can be"),
    "fields beside the parts": (
        (*MATMUL, "fields"), [{"name": "x", "lsb": 0, "bits": 1}], "3.fields", "in its parts"
    ),
    "a field without its part": ((*MATMUL, "loops", 0, "extent"), "n", "3.loops.0.extent", "no field n;.* go.n"),
    "a field of another part": (
        (*MATMUL, "operands", "C", "address"), "go.results", "3.operands.C.address", "no field go.results"
    ),
    "two roles": (
        (*MATMUL, "operands", "A", "address"), "preload.weights", "3.operands.B.address",
        "operands.A.address already",
    ),
    "an operand without an address": (
        (*MATMUL, "operands", "A"), {"memory": "a"}, "3.operands.A", "from a field .* or from the micro-ops"
    ),
    "an operand that is no element": (
        (*MATMUL, "operands", "B", "shape"), [16, 8], "3.operands.B.shape", r"\[16\]; found \[16, 8\]"
    ),
    "an operand of half an element": ((*MATMUL, "operands", "B", "shape"), [8], "3.operands.B.shape", "found"),
    "an operand larger than its memory": (
        (*MATMUL, "operands", "B", "shape"), [257, 16], "3.operands.B.shape", "257 elements of a, which has 256"
    ),
    "axes that do not match": (
        (*MATMUL, "operands", "B", "shape"), [8, 16], "3.operations.0.does", "axis k of B.* is 8; expected 16"
    ),
    "a step of nothing": ((*MATMUL, "loops", 0, "steps"), {"D": 1}, "3.loops.0.steps", "no operand D; there are C, A"),
    "a step twice": (
        (*MATMUL, "loops", 0), {"extent": "go.n", "steps": {"A": 1}, "factors": {"A": "preload.weights"}},
        "3.loops.0.factors.A", "operands.B.address already",
    ),
    "a limit beyond the field": ((*MATMUL, "loops", 0, "limit"), 32, "3.loops.0.limit", "5 bits holds 31"),
    "rows beyond the field": ((*MVIN, "max_rows"), 40, "0.max_rows", "5 bits holds 31"),
    "rows without a field": (
        (*MVIN, "copy_fields"), {"sram": "sram", "dram": "dram"}, "0.max_rows", "no field of rows"
    ),
    "a choice by a role": ((*MATMUL, "operations"), BY_ROLE, "3.operations.1.when.go.n", "loops.0.extent too"),
    "operations alike": ((*MATMUL, "operations"), ALIKE, "3.operations.1.when", "two cannot be told from one"),
    "a choice that is none": (
        (*MATMUL, "operations", 0, "when"), {"preload.code": 3}, "3.operations.0.when.preload.code",
        "constant and 2",
    ),
    "a choice that does not fit": (
        (*MATMUL, "operations", 0, "when"), {"go.code": 16}, "3.operations.0.when.go.code", "holds 0 to 15"
    ),
    "a type that does not fit": (
        (*MATMUL, "operations", 0, "does"), "C[j] += A[k] * B[k, j]", "3.operations.0.does", "int8"
    ),
    "a scalar of another part": (
        (*MATMUL, "operations", 0, "does"), "C[j] = code", "3.operations.0.does", "the scalar code"
    ),
    "a float of few bits": ((*PRELOAD, "fields", 3, "bits"), 16, "1.fields.3", "must have 32"),
    "a load that writes DRAM": (
        (*MVIN, "operations"), [{"name": "back", "does": "dram[i] = sram[i]"}], "0.operations.0.does",
        "a load writes sram and reads dram",
    ),
    "a role that is a float": (
        (*MATMUL, "operands", "C", "address"), "preload.scale", "3.operands.C.address", "must be unsigned"
    ),
    "a cost of an unknown field": ((*MATMUL, "cycles"), "go.m", "3.cycles", "no field or number go.m; .*go.n"),
    "a cost of bytes that are none": ((*MATMUL, "energy"), "bytes", "3.energy", "no field or number bytes"),
    "a cost divided by zero": ((*MVIN, "energy"), "bytes / 0", "0.energy", "divides by zero"),
    "tokens without queues": (
        (*MVIN, "tokens"), {"pop": {"array": "rows"}}, "0.tokens.pop.array", "5 bits; a token has one"
    ),
    "parts alike": ((*GO, "fields", 0, "value"), 2, "2.fields", "go cannot be told from preload"),
    "a padded store": (
        (*MVIN,),
        document()["instructions"][0] | {
            "direction": "store", "max_rows": None, "copy_fields": {"sram": "sram", "dram": "dram", "pad_top": "rows"},
        },
        "0.copy_fields.pad_top", "a store has no padding",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_agree_is_named_with_what_would(name: str) -> None:
    path, value, where, message = WRONG[name]
    with pytest.raises(InvalidAccelerator, match=message) as caught:
        check_document(made({path: value}))
    assert caught.value.field == f"accelerator.instructions.{where}"
    assert caught.value.detail.startswith(f"instructions.{where}: ")


def test_words_are_the_parts_and_never_the_whole() -> None:
    accelerator = made({})
    words = np.array([[1 | 5 << 12], [2 | 0x3F800000 << 32], [3 | 7 << 4]], np.uint64)
    decoded = decode(accelerator, words)
    assert [accelerator.instructions[kind].name for kind in decoded.kind] == ["mvin", "preload", "go"]
    assert decoded.column("scale").tolist() == [0, 0x3F800000, 0]
    assert np.array_equal(encode(decoded), words)
    with pytest.raises(SimulationError, match="undefined: 0000000000000000"):
        decode(accelerator, np.zeros((1, 1), np.uint64))


def test_a_field_of_a_whole_word_keeps_its_bits() -> None:
    address = {"name": "dram", "lsb": 64, "bits": 64}
    fields = [*document()["instructions"][0]["fields"][:3], address]
    accelerator = made({("word_bits",): 128, (*MVIN, "fields"): fields})
    check_document(accelerator)
    words = np.array([[1, (1 << 64) - 2], [1, 5]], np.uint64)
    decoded = decode(accelerator, words)
    assert decoded.column("dram").view(np.uint64).tolist() == [(1 << 64) - 2, 5]
    assert np.array_equal(encode(decoded), words)


def test_mistakes_that_are_apart_are_told_together() -> None:
    """One mistake after the other, as before, would be one round of typing each."""
    changes = {
        (*MVIN, "unit"): "nobody",
        (*MVIN, "energy"): "bytes / rowz",
        (*MATMUL, "operations", 0, "does"): "C[j] = nothing",
        (*MATMUL, "cycles"): "go.m",
        ("memories", 1, "scope"): document()["memories"][0]["scope"],
    }
    with pytest.raises(InvalidAccelerator) as caught:
        check_document(made(changes))
    found = {error.field for error in (caught.value, *caught.value.others)}
    assert {"accelerator.instructions.0.unit", "accelerator.instructions.0.energy"} <= found
    assert {"accelerator.instructions.3.operations.0.does", "accelerator.instructions.3.cycles"} <= found
    assert "accelerator.memories.1" in found
    assert len(found) == 1 + len(caught.value.others)
