"""Statements that take in others: what a store rounds and clips needs no statements of its own."""

from dataclasses import replace

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.expression.parser import parse_statement
from accel.lowering.vector.fewer_statements import in_fewer_statements
from accel.lowering.vector.tiles.program_buffers import Statements
from accel.region.vector_program import VectorTensor

_LOAD = "t1[a0, a1] = f32(x[a0, a1])"
_NARROWED = [
    "t3[a0, a1] = rint(t2[a0, a1])",
    "t4[a0, a1] = min(t3[a0, a1], 127.0)",
    "t5[a0, a1] = max(t4[a0, a1], -128.0)",
    "y[a0, a1] = i8(t5[a0, a1])",
]


@pytest.fixture(scope="module")
def npu() -> Target:
    return Target(load_accelerator("npu"))


def program(*statements: str) -> Statements:
    """A program of int8 operand ``x`` and result ``y``, with tensors t1 to t9 on the chip."""
    tensors = {"x": VectorTensor("x", "int8", (0, 1)), "y": VectorTensor("y", "int8", (0, 1))}
    tensors |= {f"t{number}": VectorTensor(f"t{number}", "float32", (0, 1), "v") for number in range(1, 10)}
    tensors["s"] = VectorTensor("s", "float32", (0,), "v")
    return Statements((8, 16), tensors, ("x",), ("y",), tuple(map(parse_statement, statements)))


def texts(whole: Statements) -> list[str]:
    return [str(statement) for statement in whole.statements]


def test_a_store_rounds_and_clips(npu: Target) -> None:
    found = in_fewer_statements(program(_LOAD, "t2[a0, a1] = t1[a0, a1] * 0.5", *_NARROWED), npu)
    assert texts(found) == [
        _LOAD,
        "t2[a0, a1] = t1[a0, a1] * 0.5",
        "y[a0, a1] = i8(max(min(rint(t2[a0, a1]), 127.0), -128.0))",
    ]


def test_what_others_read_is_computed_once(npu: Target) -> None:
    """Taken in by the store it would be missing, or computed twice."""
    again = "t6[a0, a1] = t2[a0, a1] + t3[a0, a1]"
    statements = [_LOAD, "t2[a0, a1] = t1[a0, a1] * 0.5", _NARROWED[0], again, "y[a0, a1] = i8(t6[a0, a1])"]
    assert texts(in_fewer_statements(program(*statements), npu)) == statements


def test_a_value_is_not_taken_behind_a_change_of_what_it_reads(npu: Target) -> None:
    """The running sum is another one behind its reduction."""
    statements = [
        _LOAD,
        "s[a0] = 0.0",
        "t2[a0, a1] = t1[a0, a1] + s[a0]",
        "t3[a0, a1] = rint(t2[a0, a1])",
        "s[a0] += t1[a0, a1]",
        "t4[a0, a1] = max(min(t3[a0, a1], 127.0), -128.0)",
        "y[a0, a1] = i8(t4[a0, a1])",
    ]
    found = in_fewer_statements(program(*statements), npu)
    assert "t2[a0, a1] = t1[a0, a1] + s[a0]" in texts(found)
    assert texts(found).index("t2[a0, a1] = t1[a0, a1] + s[a0]") < texts(found).index("s[a0] += t1[a0, a1]")


@pytest.mark.parametrize(("zero_point", "left"), [(-128.0, 3), (-15.0, 4), (5e7, 4)])
def test_rounding_goes_behind_sums_with_even_numbers(npu: Target, zero_point: float, left: int) -> None:
    """Halves go to the even number: with an odd one 0.5 would become 2 where 1 is due."""
    statements = [
        _LOAD,
        "t3[a0, a1] = rint(t1[a0, a1])",
        f"t2[a0, a1] = t3[a0, a1] + {zero_point}",
        "y[a0, a1] = i8(max(min(t2[a0, a1], 127.0), -128.0))",
    ]
    found = texts(in_fewer_statements(program(*statements), npu))
    assert len(found) == left
    if left == 3:
        assert found[1:] == [
            f"t3[a0, a1] = t1[a0, a1] + {zero_point}",
            "y[a0, a1] = i8(max(min(rint(t3[a0, a1]), 127.0), -128.0))",
        ]


def test_what_turns_rows_into_columns_stays(npu: Target) -> None:
    """A store would move each element by itself."""
    whole = program("t1[a0, a1] = f32(x[a0, a1])", "u[a1, a0] = t1[a0, a1]", "y[a1, a0] = i8(u[a1, a0])")
    tensors = {**whole.tensors, "u": VectorTensor("u", "float32", (1, 0), "v"), "y": VectorTensor("y", "int8", (1, 0))}
    turned = replace(whole, tensors=tensors)
    assert in_fewer_statements(turned, npu) == turned


def test_copies_are_names(npu: Target) -> None:
    copied = [_LOAD, "t2[a0, a1] = t1[a0, a1]", "t3[a0, a1] = exp(t2[a0, a1])", "y[a0, a1] = i8(t3[a0, a1])"]
    assert texts(in_fewer_statements(program(*copied), npu))[1] == "t3[a0, a1] = exp(t1[a0, a1])"


def test_a_machine_without_such_a_store_keeps_its_statements(npu: Target) -> None:
    stores = [
        each.model_copy(update={"operations": each.operations[2:]}) if each.name == "store_v8" else each
        for each in npu.accelerator.instructions
    ]
    plain = Target(npu.accelerator.model_copy(update={"instructions": tuple(stores)}))
    whole = program(_LOAD, "t2[a0, a1] = t1[a0, a1] * 0.5", *_NARROWED)
    assert in_fewer_statements(whole, plain) == replace(whole)
