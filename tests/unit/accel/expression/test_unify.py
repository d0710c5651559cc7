"""Stores of programs against statements: what fits, and what is said where nothing does."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tvm import ir, s_tir, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_walk

from accel.expression.element_types import TensorType, held_as
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import Access, Scalar
from accel.expression.typecheck import Typed, check_statement
from accel.expression.unify import Binding, UnificationFailure, bindings, tvm_form, unify
from tests.helpers.documents.random_statements import data, statements
from tests.helpers.marking import share
from tests.reference.statements import run

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TENSORS = {
    "A": TensorType("int8", (16, 16)),
    "B": TensorType("int8", (16, 16)),
    "C": TensorType("int32", (16, 16)),
    "D": TensorType("int32", (16, 16)),
    "Y": TensorType("int8", (16, 16)),
}
FIELDS = {"imm": "int32", "scale": "float32", "lo": "int32", "hi": "int32"}


def buffer(name: str, dtype: str) -> tirx.Var:
    return tirx.decl_buffer((4096,), dtype, name)


AXIS_I, AXIS_J, AXIS_K, N = (tirx.Var(name, "int32") for name in "ijkn")
ACC, INP, WGT, OUT = buffer("acc", "int32"), buffer("inp", "int8"), buffer("wgt", "int8"), buffer("out", "int8")
PLACE = AXIS_I * 16 + AXIS_J
C = tirx.BufferLoad(ACC, [PLACE])
D = tirx.BufferLoad(ACC, [PLACE + 256])
A, B = tirx.BufferLoad(INP, [AXIS_I * 16 + AXIS_K]), tirx.BufferLoad(WGT, [AXIS_K * 16 + AXIS_J])


def i32(value: tirx.Expr) -> tirx.Expr:
    return tirx.Cast("int32", value)


def f32(value: tirx.Expr | float) -> tirx.Expr:
    return tirx.const(value, "float32") if isinstance(value, float) else tirx.Cast("float32", value)


def typed(text: str) -> Typed:
    return check_statement(parse_statement(text), TENSORS, FIELDS)


def by_memory(name: str, load: TensorLoad) -> bool:
    return str(load.source.name) == {"A": "inp", "B": "wgt", "C": "acc", "D": "acc", "Y": "out"}[name]


def found(text: str, value: tirx.Expr) -> Binding | UnificationFailure:
    statement = typed(text)
    target = OUT if statement.statement.target.name == "Y" else ACC
    return unify(statement, tirx.BufferStore(target, value, [PLACE]), by_memory)


def requantized(value: tirx.Expr) -> tirx.Expr:
    return tirx.Cast("int8", tirx.max(tirx.min(tirx.round(value), f32(127.0)), f32(-128.0)))


MAC = "C[i, j] += i32(A[i, k]) * i32(B[k, j])"
REQUANTIZE = "Y[i, j] = i8(clip(rint(f32(C[i, j]) * scale), -128, 127))"

FITS = [
    (MAC, C + i32(A) * i32(B), {}),
    (MAC, i32(B) * i32(A) + C, {}),
    (MAC.replace("+=", "="), C + i32(A) * i32(B), {}),
    ("C[i, j] = 0", tirx.const(0, "int32"), {}),
    ("C[i, j] = max(C[i, j], imm)", tirx.max(tirx.const(3, "int32"), C), {"imm": "3"}),
    ("C[i, j] = max(C[i, j], imm)", tirx.max(C, N + 3), {"imm": "n + 3"}),
    ("C[i, j] = max(C[i, j], 0)", tirx.max(C, 0), {}),
    ("C[i, j] = relu(C[i, j])", tirx.max(C, 0), {}),
    ("C[i, j] = C[i, j] >> imm", C >> 3, {"imm": "3"}),
    ("C[i, j] = C[i, j] >> imm", C << 3, {"imm": "-3"}),
    ("C[i, j] = C[i, j] >> imm", C, {"imm": "0"}),
    ("C[i, j] = C[i, j] >> (imm + 1)", C >> 3, {"imm": "2"}),
    ("C[i, j] = C[i, j] + imm", C - 3, {"imm": "-3"}),
    ("C[i, j] = C[i, j] - imm", C - 3, {"imm": "3"}),
    ("C[i, j] = C[i, j] + imm", (C + N) + 3, {"imm": "n + 3"}),
    ("C[i, j] = C[i, j] * imm", C * 3, {"imm": "3"}),
    ("C[i, j] = C[i, j] & imm", C & 255, {"imm": "255"}),
    ("C[i, j] = min(C[i, j], D[i, j])", tirx.min(D, C), {}),
    ("C[i, j] = C[i, j] + D[i, j] + imm", D + (tirx.const(7, "int32") + C), {"imm": "7"}),
    ("C[i, j] = abs(C[i, j])", tirx.abs(C), {}),
    ("C[i, j] = clip(C[i, j], lo, hi)", tirx.max(tirx.min(C, 127), -128), {"lo": "-128", "hi": "127"}),
    ("C[i, j] = clip(C[i, j], lo, hi)", tirx.min(tirx.max(C, -128), 127), {"lo": "-128", "hi": "127"}),
    ("C[i, j] = clip(C[i, j], lo, hi)", tirx.min(N + 1, tirx.max(N, C)), {"lo": "n", "hi": "n + 1"}),
    ("C[i, j] = clip(C[i, j], lo, hi)", tirx.max(N, tirx.min(N + 1, C)), {"lo": "n", "hi": "n + 1"}),
    (REQUANTIZE, requantized(f32(C) * f32(0.5)), {"scale": "T.float32(0.5)"}),
    (REQUANTIZE, requantized(f32(0.5) * f32(C)), {"scale": "T.float32(0.5)"}),
    (REQUANTIZE, requantized(f32(C)), {"scale": "T.float32(1.0)"}),
    ("C[i, j] = select(D[i, j] < 0, C[i, j], 0)", tirx.if_then_else(tirx.GT(tirx.const(0, "int32"), D), C, 0), {}),
]


@pytest.mark.parametrize(("text", "value", "scalars"), FITS, ids=lambda value: str(value)[:60])
def test_it_fits(text: str, value: tirx.Expr, scalars: dict[str, str]) -> None:
    binding = found(text, value)
    assert isinstance(binding, Binding), binding
    assert {name: str(bound) for name, bound in binding.scalars.items()} == scalars
    memories = {name: str(load.source.name) for name, load in binding.operands.items()}
    assert memories == {
        name: by
        for name, by in {"A": "inp", "B": "wgt", "C": "acc", "D": "acc", "Y": "out"}.items()
        if name in memories
    }
    assert set(memories) == set(typed(text).tensors)


MISFITS = [
    (MAC, i32(B) * i32(B) + C, "cannot be A"),
    (MAC, D + i32(A) * i32(B), r"expected C at acc\[i \* 16 \+ j\], found acc\[i \* 16 \+ j \+ 256\]"),
    (MAC, tirx.const(0, "int32"), r"expected C \+ .*, found 0"),
    (MAC, i32(A) * i32(B), "expected"),
    ("C[i, j] = max(C[i, j], imm)", tirx.min(C, 3), r"expected T.max\(C, imm\), found T.min"),
    ("C[i, j] = max(C[i, j], imm)", tirx.max(C, D), "expected"),
    ("C[i, j] = max(C[i, j] + imm, imm)", tirx.max(C + 3, 4), "expected imm to be 3 again, found 4"),
    ("C[i, j] = clip(C[i, j], lo, hi)", tirx.max(tirx.min(C, -128), 127), "expected"),
    ("C[i, j] = clip(C[i, j], lo, hi)", tirx.max(tirx.min(C, N), 127), "expected"),
    ("C[i, j] = C[i, j] >> 3", C >> 4, "expected 3, found 4"),
    ("C[i, j] = C[i, j] - D[i, j]", D - C, "expected"),
    ("C[i, j] = i32(A[i, j])", i32(tirx.Cast("uint8", A)), "expected"),
    ("C[i, j] = 0", tirx.const(1, "int32"), "expected 0, found 1"),
]


@pytest.mark.parametrize(("text", "value", "reason"), MISFITS, ids=lambda value: str(value)[:60])
def test_it_does_not_fit(text: str, value: tirx.Expr, reason: str) -> None:
    mismatch = found(text, value)
    assert isinstance(mismatch, UnificationFailure), mismatch
    assert re.search(reason, mismatch.reason), mismatch.reason
    assert mismatch.reason.startswith(str(parse_statement(text)))


def test_all_ways_are_offered() -> None:
    statement = typed("C[i, j] = i32(A[i, k]) * i32(B[k, j])")
    store = tirx.BufferStore(ACC, C + i32(A) * i32(B), [PLACE])
    ways = list(bindings(statement, store, lambda _name, _load: True))
    assert [str(way.operands["A"].source.name) for way in ways] == ["inp", "wgt"]
    assert all(way.accumulates for way in ways)


def test_a_search_of_too_many_ways_ends() -> None:
    text = "C[i, j] = " + " + ".join(["i32(A[i, j])"] * 14 + ["i32(B[i, j])"])
    value = i32(A)
    for _ in range(14):
        value = value + i32(A)
    assert "too many ways" in found(text, value).reason


def lowered(statement: Typed) -> tirx.BufferStore | None:
    """The store of a program that does ``statement``, as TVM's passes leave it."""
    axes = {axis: tirx.Var(axis, "int32") for axis in statement.extents}
    buffers = {name: tirx.decl_buffer((4096,), tensor.dtype, name) for name, tensor in statement.tensors.items()}
    # of the type that their place asks for, so that TVM knows no more of them than of the statement's
    scalars: dict[tuple[str, str], tirx.Var] = {}

    def index(access: Access) -> tirx.Expr:
        steps = zip(access.indices, statement.tensors[access.name].strides(), strict=True)
        terms = [(axes[axis] if isinstance(axis, str) else tirx.const(axis, "int32")) * step for axis, step in steps]
        return sum(terms, tirx.const(64, "int32"))

    def leaf(node: Access | Scalar, dtype: str) -> tirx.Expr:
        if isinstance(node, Access):
            return tirx.BufferLoad(buffers[node.name], [index(node)])
        return scalars.setdefault((node.name, dtype), tirx.Var(node.name.replace(".", "_"), dtype))

    target = statement.statement.target
    value = tvm_form(statement.value, leaf)
    if statement.statement.updates or statement.statement.reduced:
        combined = {"+": tirx.Add, "max": tirx.Max, "min": tirx.Min}[statement.statement.combiner or "+"]
        value = combined(leaf(target, statement.dtype), value)
    assume(len(scalars) == len(statement.scalars))
    body = tirx.BufferStore(buffers[target.name], value, [index(target)])
    for axis, variable in axes.items():
        extent = tirx.const(statement.extents[axis], "int32")
        body = tirx.For(variable, tirx.const(0, "int32"), extent, tirx.ForKind.SERIAL, body)
    function = tirx.PrimFunc([*buffers.values(), *scalars.values()], body)
    simplified = s_tir.transform.StmtSimplify()(ir.IRModule({"f": function}))["f"]
    stores: list[tirx.BufferStore] = []
    structural_walk(simplified.body, (tirx.BufferStore, stores.append), order="pre")
    return stores[0] if stores else None


def same_buffer(name: str, load: TensorLoad) -> bool:
    return str(load.source.name) == name


def stored(statement: Typed) -> tirx.BufferStore:
    try:
        store = lowered(statement)
    except (ValueError, RuntimeError):  # TVM folds a constant that its type cannot hold
        store = None
    assume(store is not None)  # nor is there one where the target stays as it is
    return store


@pytest.mark.slow
@settings(max_examples=share(50), deadline=None, suppress_health_check=SLOW)
@given(statements())
def test_a_statement_fits_its_own_program(statement: Typed) -> None:
    store = stored(statement)
    binding = unify(statement, store, same_buffer)
    open_name = isinstance(binding, UnificationFailure) and "could be anything" in binding.reason  # in a - a, say
    assert open_name or isinstance(binding, Binding), (str(statement.statement), str(store), binding.reason)


def number(value: tirx.Expr, scalars: dict[str, float]) -> float:
    """What a scalar is bound to: another scalar, or a constant."""
    names = {name.replace(".", "_"): given for name, given in scalars.items()}
    if isinstance(value, tirx.Var):
        return names[str(value.name)]
    assume(isinstance(value, tirx.IntImm | tirx.FloatImm))
    return float(value) if isinstance(value, tirx.FloatImm) else int(value)


def holds(dtype: str, value: float) -> bool:
    """Whether a field of that type can hold the number."""
    return dtype == "float32" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


@pytest.mark.slow
@settings(max_examples=share(30), deadline=None, suppress_health_check=SLOW)
@given(statements(), st.integers(0, 1000))
def test_every_binding_computes_what_the_program_does(statement: Typed, seed: int) -> None:
    """Operands may be exchanged: the statement's value stays, whatever the memories hold."""
    rng = np.random.default_rng(seed)

    def some(dtype: str) -> np.generic:
        return np.float32(rng.standard_normal()) if dtype == "float32" else data(dtype, (), seed + rng.integers(99))[()]

    held = {name: some(tensor.dtype) for name, tensor in statement.tensors.items()}
    scalars = {name: some(dtype).item() for name, dtype in statement.scalars.items()}

    def result(operands: dict[str, str], fields: dict[str, float]) -> np.ndarray:
        tensors = {
            name: np.full(kind.shape, held[operands[name]], held_as(kind.dtype))
            for name, kind in statement.tensors.items()
        }
        return run(statement, tensors, fields)

    expected = result({name: name for name in held}, scalars)
    for way in itertools.islice(bindings(statement, stored(statement), lambda _name, _load: True), 4):
        operands = {name: str(load.source.name) for name, load in way.operands.items()}
        fields = {name: number(value, scalars) for name, value in way.scalars.items()}
        if not all(holds(statement.scalars[name], value) for name, value in fields.items()):
            continue  # the compiler refuses what a field cannot hold
        found = result(operands, fields)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        assert same.all(), (str(statement.statement), operands, fields)


@pytest.mark.long
@settings(max_examples=2000, deadline=None, suppress_health_check=SLOW)
@given(statements(4))
def test_many_statements_fit_their_own_programs(statement: Typed) -> None:
    store = stored(statement)
    binding = unify(statement, store, same_buffer)
    open_name = isinstance(binding, UnificationFailure) and "could be anything" in binding.reason  # in a - a, say
    assert open_name or isinstance(binding, Binding), (str(statement.statement), str(store), binding.reason)
