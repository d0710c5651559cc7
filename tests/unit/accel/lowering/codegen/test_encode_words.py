"""Words of allocated functions, against the same functions run one iteration after the other."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import sym, tirx

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompiledTooLarge, CompileError
from accel.isa.decode import decode
from accel.lowering.codegen.index_values import IndexValue, evaluate_index
from accel.lowering.codegen.instruction_encoding import encode
from accel.lowering.codegen.relocatable_code import CallSite
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import substitute
from accel.program.program_model import MOST_INSTRUCTIONS

X, Y = tirx.Var("x", "int32"), tirx.Var("y", "int32")
BASE, TABLE = tirx.Var("a_base", "int32"), tirx.Var("microops_base", "int32")
EXTENTS = {X: 4, Y: 3}


def number(expression: Any, values: dict[Any, int]) -> int:
    """The value by TVM's own arithmetic on constants, one iteration at a time."""
    constants = {variable: tirx.const(value, "int32") for variable, value in values.items()}
    return int(sym.Analyzer().simplify(substitute(expression, constants)))


def expressions() -> st.SearchStrategy[tirx.Expr]:
    """Integer expressions of ``X`` and ``Y`` with small values."""
    leaves = st.one_of(st.sampled_from([X, Y]), st.integers(-9, 9).map(lambda n: tirx.const(n, "int32")))
    two = [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, _: a * 3,
        lambda a, _: tirx.floordiv(a, 4),
        lambda a, _: tirx.floormod(a, -3),
        lambda a, _: tirx.truncdiv(a, 4),
        lambda a, _: tirx.truncmod(a, 3),
        tirx.min,
        tirx.max,
        lambda a, b: tirx.Cast("int32", tirx.And(a < b, tirx.Not(a <= -2))),
        lambda a, b: tirx.Cast("int32", tirx.Or(a > b, a >= 5)),
        lambda a, b: tirx.Select(tirx.EQ(a, b), a, b + 1),
        lambda a, b: tirx.if_then_else(tirx.NE(a, b), a, tirx.const(7, "int32")),
        lambda a, _: a >> 1,
        lambda a, _: a << 2,
        lambda a, _: tirx.Cast("int32", tirx.Cast("int8", a)),
    ]
    return st.recursive(
        leaves, lambda inner: st.builds(lambda how, a, b: how(a, b), st.sampled_from(two), inner, inner), max_leaves=6
    )


@given(expressions())
def test_all_iterations_at_once_are_each_by_itself(expression: tirx.Expr) -> None:
    values = {
        X: IndexValue(np.arange(4, dtype=np.int64)[:, None], {}),
        Y: IndexValue(np.arange(3, dtype=np.int64)[None, :], {}),
    }
    found = np.broadcast_to(evaluate_index(expression, values).number, (4, 3))
    for x, y in itertools.product(range(4), range(3)):
        assert found[x, y] == number(expression, {X: x, Y: y}), expression


@pytest.mark.parametrize(
    ("expression", "at_zero", "each"),
    [(BASE + X * 2 - 3, -3, 1), ((X - BASE) * 2, 0, -2), (tirx.Cast("int64", BASE + BASE), 0, 2), (BASE - BASE, 0, 0)],
)
def test_an_address_is_left_open(expression: tirx.Expr, at_zero: int, each: int) -> None:
    value = evaluate_index(
        expression, {X: IndexValue(np.array(0), {}), BASE: IndexValue(np.array(0), {BASE: np.array(1)})}
    )
    assert (int(value.number), dict(value.multiples)) == (at_zero, {BASE: each} if each else {})


@pytest.mark.parametrize("expression", [tirx.floordiv(BASE, 2), BASE * BASE, tirx.max(BASE, 0)])
def test_an_address_that_does_not_grow_evenly_is_refused(expression: tirx.Expr) -> None:
    with pytest.raises(CompileError, match="evenly"):
        evaluate_index(expression, {BASE: IndexValue(np.array(0), {BASE: np.array(1)})})


def test_what_has_no_rule_is_named() -> None:
    with pytest.raises(CompileError, match="no rule"):
        evaluate_index(tirx.popcount(X), {X: IndexValue(np.array(0), {})})


def loop(variable: tirx.Var, body: tirx.Stmt) -> tirx.Stmt:
    return tirx.For(variable, 0, EXTENTS[variable], tirx.ForKind.SERIAL, body)


def load(site: int, **fields: Any) -> tirx.Stmt:
    return instruction_calls.call("load_inp", fields, site=site)


def nested() -> list[Any]:
    """A body: what stands alone, a call within two loops, one after the inner loop."""
    inner = load(
        1,
        sram_base=X * 5 + Y,
        dram_base=BASE + X * 16 - Y + tirx.floormod(Y, 2) * TABLE,
        push_next=tirx.Cast("int32", X < 3),
    )
    after = load(5, sram_base=X + 200, dram_base=TABLE * 2 + 1)
    return [load(4, sram_base=7), loop(X, tirx.SeqStmt([loop(Y, inner), after]))]


def run(statements: list[Any], values: dict[Any, int]) -> Iterator[tuple[tirx.Evaluate, dict[str, int]]]:
    """Calls in the order in which they run, and their fields."""
    for statement in statements:
        if isinstance(statement, tirx.SeqStmt):
            yield from run(list(statement.seq), values)
        elif isinstance(statement, tirx.For):
            for iteration in range(int(statement.extent)):
                yield from run([statement.body], values | {statement.loop_var: iteration})
        else:
            _, fields, _ = instruction_calls.parse(statement)
            yield statement, {name: number(field, values) for name, field in fields.items()}


def test_words_stand_in_the_order_in_which_calls_run() -> None:
    accelerator, bases = load_accelerator("vta"), {BASE: 4096, TABLE: 99}
    body = nested()
    code = encode(tirx.PrimFunc([BASE, TABLE], tirx.SeqStmt(body)), accelerator)
    words, origin = code.link(list(bases.values()), accelerator)
    wanted = list(run(body, bases))
    columns = decode(accelerator, words).columns
    assert len(words) == len(wanted) == 17
    for name in ("sram_base", "dram_base", "push_next", "x_size"):
        assert columns[name].tolist() == [fields.get(name, 0) for _, fields in wanted], name
    order = {call: number for number, (call, _) in enumerate(dict.fromkeys((call, 0) for call, _ in wanted))}
    assert origin.tolist() == [order[call] for call, _ in wanted]
    assert code.sites == tuple(CallSite(number, "load_inp") for number in (4, 1, 5))


def test_linking_twice_gives_two_places() -> None:
    accelerator = load_accelerator("vta")
    code = encode(tirx.PrimFunc([BASE, TABLE], tirx.SeqStmt(nested())), accelerator)
    first, _ = code.link([64, 0], accelerator)
    code.link([128, 5], accelerator)
    again, _ = code.link([64, 0], accelerator)
    assert np.array_equal(first, again)


def narrow(bits: dict[str, int]) -> Accelerator:
    document = load_accelerator("vta").model_dump(mode="json", exclude_none=True)
    (instruction,) = (one for one in document["instructions"] if one["name"] == "load_inp")
    for field in instruction["fields"]:
        field["bits"] = bits.get(field["name"], field["bits"])
    return Accelerator.model_validate(document)


@pytest.mark.parametrize(
    ("bits", "message"),
    [
        ({"sram_base": 4}, "field sram_base of load_inp has 4 bits; 203 needs 8"),  # the last call
        ({"sram_base": 2}, "field sram_base of load_inp has 2 bits; 7 needs 3"),  # a constant
        ({"dram_base": 12}, "field dram_base of load_inp has 12 bits; 4144 needs 13"),  # the largest, not the first
        ({"dram_base": 7, "sram_base": 4}, "field dram_base of load_inp has 7 bits; 4144 needs 13"),  # comes earlier
    ],
)
def test_the_first_field_that_overflows_is_named_with_its_largest_value(bits: dict[str, int], message: str) -> None:
    accelerator = narrow(bits)
    with pytest.raises(CompileError) as caught:
        encode(tirx.PrimFunc([BASE, TABLE], tirx.SeqStmt(nested())), accelerator).link([4096, 99], accelerator)
    assert caught.value.detail == message


def test_a_negative_value_needs_a_sign() -> None:
    accelerator = load_accelerator("vta")
    body = loop(X, load(0, sram_base=X - 2))
    with pytest.raises(CompileError, match="sram_base of load_inp has no sign; -1 needs one"):
        encode(tirx.PrimFunc([], body), accelerator).link([], accelerator)


def test_a_field_that_the_instruction_lacks_is_named() -> None:
    with pytest.raises(CompileError, match=r"load_inp has no field \['colour'\]"):
        encode(tirx.PrimFunc([], load(0, colour=1)), load_accelerator("vta"))


def test_more_instructions_than_may_be_are_counted_and_not_made() -> None:
    body = loop(X, load(0))
    for variable in (tirx.Var(f"i{index}", "int32") for index in range(4)):
        body = tirx.For(variable, 0, 1 << 20, tirx.ForKind.SERIAL, body)
    with pytest.raises(CompiledTooLarge, match=f"takes {4 << 80} instructions; the limit is {MOST_INSTRUCTIONS}"):
        encode(tirx.PrimFunc([], body), load_accelerator("vta"))


def test_a_statement_that_is_no_call_is_refused() -> None:
    body = tirx.IfThenElse(BASE < 3, load(0), None)
    with pytest.raises(CompileError, match="loops and calls only"):
        encode(tirx.PrimFunc([BASE], body), load_accelerator("vta"))
