"""Lookups in tables against numpy, bit for bit."""

from typing import Any

import numpy as np
import pytest

from accel.expression.element_types import TensorType
from accel.expression.lookup_tables import LookupTable
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import ExpressionError
from accel.expression.typecheck import Typed, check_statement
from tests.reference.compiled_statement import compile_statement
from tests.reference.statements import run

RANDOM = np.random.default_rng(7)
BYTES = tuple(RANDOM.integers(-128, 128, 256).tolist())
TABLES = {
    "signed": LookupTable("int8", "int8", BYTES),
    "unsigned": LookupTable("uint8", "int32", tuple(value * 1000 for value in BYTES)),
    "floats": LookupTable("int8", "float32", tuple((RANDOM.normal(0, 1, 256)).tolist())),
    "curve": LookupTable("float32", "float32", tuple(np.exp(np.linspace(-8, 0, 65)).tolist()), -8.0, 0.0),
    "three": LookupTable("float32", "float32", (1.0, -2.0, 5.0), -0.3, 0.4),
}
EVERY = np.arange(-128, 128).astype(np.int8)


def typed(text: str, tensors: dict[str, np.ndarray]) -> Typed:
    kinds = {name: TensorType(str(array.dtype), array.shape) for name, array in tensors.items()}
    return check_statement(parse_statement(text), kinds, {}, TABLES)


def compare(text: str, tensors: dict[str, np.ndarray]) -> np.ndarray:
    statement = typed(text, tensors)
    found, expected = compile_statement(statement)(tensors), run(statement, tensors, {})
    assert found.tobytes() == expected.tobytes()
    return found


def test_each_byte_has_its_number() -> None:
    """Catches a table that begins at another byte, and numbers of another type."""
    assert compare("Y[l] = lut(signed, X[l])", {"X": EVERY, "Y": np.zeros(256, np.int8)}).tolist() == list(BYTES)
    found = compare("Y[l] = lut(unsigned, u8(X[l]))", {"X": EVERY, "Y": np.zeros(256, np.int32)})
    assert found.tolist() == [1000 * BYTES[value % 256] for value in range(-128, 128)]
    compare("Y[l] = lut(floats, X[l])", {"X": EVERY, "Y": np.zeros(256, np.float32)})


@pytest.mark.parametrize("name", ["curve", "three"])
def test_lines_between_points(name: str) -> None:
    """Catches a point beside its place, an end that goes on, a fused product and sum, and a NaN that reads nowhere."""
    table = TABLES[name]
    points = np.linspace(table.low, table.high, len(table.values)).astype(np.float32)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3e38], np.float32)
    x = np.concatenate([points, odd, RANDOM.uniform(table.low - 1, table.high + 1, 4096).astype(np.float32)])
    found = compare(f"Y[l] = lut({name}, X[l])", {"X": x, "Y": np.zeros(len(x), np.float32)})
    exact = np.interp(x.astype(np.float64), np.linspace(table.low, table.high, len(table.values)), table.values)
    finite = ~np.isnan(x)
    np.testing.assert_allclose(found[finite], exact[finite], rtol=1e-6, atol=1e-6)
    assert found[~finite].tolist() == [np.float32(table.values[0])]


def test_a_lookup_is_part_of_an_expression() -> None:
    x = RANDOM.integers(-128, 128, (4, 16)).astype(np.int8)
    compare("Y[i, l] = i8(clip(i32(lut(signed, X[i, l])) + 3, -128, 127))", {"X": x, "Y": np.zeros((4, 16), np.int8)})
    compare("Y[i] += lut(floats, X[i, l])", {"X": x, "Y": np.zeros(4, np.float32)})


@pytest.mark.parametrize("dtype", ["int8", "int32", "float32"])
def test_an_operand_is_a_table(dtype: str) -> None:
    """Catches a table whose first number is another byte's, the wrong row of one by channel, and a stale one."""
    rows = RANDOM.integers(-128, 128, (3, 300)).astype(dtype)
    x = RANDOM.integers(-128, 128, (5, 3)).astype(np.int8)
    found = compare("Y[i, c] = lut(T[c, 130], X[i, c])", {"X": x, "T": rows, "Y": np.zeros((5, 3), dtype)})
    np.testing.assert_array_equal(found, rows[np.arange(3), 130 + x.astype(np.int64)])
    unsigned = x.view(np.uint8)
    found = compare("Y[i, c] = lut(T[c, 44], X[i, c])", {"X": unsigned, "T": rows, "Y": np.zeros((5, 3), dtype)})
    np.testing.assert_array_equal(found, rows[np.arange(3), 44 + unsigned.astype(np.int64)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Y[l] = lut(T[0], X[l])", r"int8 from T\[0\] on goes from -128 to 127; expected at least 0 and at most 255"),
        ("Y[l] = lut(T[129], X[l])", r"int8 from T\[129\] on goes from 1 to 256; expected at least 0 and at most 255"),
        ("Y[l] = lut(T[l], X[l])", r"found T\[l\]; the last index of a table is where its number of 0 is, an integer"),
        ("Y[l] = lut(T[128], f32(X[l]))", r"f32\(X\[l\]\) is float32; T\[128\] is by integers: cast it"),
        ("Y[l] = lut(S[128], X[l])", "found the tensor S; expected one of X, Y, T"),
        ("Y[l] = lut(T, X[l])", "found the table T; expected one of signed"),
    ],
)
def test_a_wrong_operand_of_a_lookup_is_named(text: str, message: str) -> None:
    tensors = {"X": np.zeros(256, np.int8), "Y": np.zeros(256, np.int8), "T": np.zeros(256, np.int8)}
    with pytest.raises(ExpressionError, match=message):
        typed(text, tensors)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Y[l] = lut(sined, X[l])", "found the table sined; expected one of signed, unsigned, floats, curve, three"),
        ("Y[l] = i8(lut(unsigned, X[l]))", r"X\[l\] is int8; expected uint8: cast it with u8\(\)"),
        ("Y[l] = i8(lut(curve, X[l]))", "X.l. is int8; expected float32"),
        ("Y[l] = lut(floats, X[l])", r"lut\(floats, X\[l\]\) is float32; expected int8"),
        ("Y[l] = lut(signed)", "found '\\)'; expected ','"),
        ("Y[l] = lut(3, X[l])", "found '3'; expected the name of a table"),
        ("Y[l] = lut(signed, X[l], 1)", "found ','; expected '\\)'"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    tensors: dict[str, Any] = {"X": np.zeros(4, np.int8), "Y": np.zeros(4, np.int8)}
    with pytest.raises(ExpressionError, match=message):
        typed(text, tensors)
