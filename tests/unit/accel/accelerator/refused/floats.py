"""Types and reductions of a machine with a vector unit that do not fit."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import Case

_ADD, _EXP = "instructions/vector/operations/add/does", "instructions/vector_function/operations/exp/does"
_SUM, _MAX = "instructions/vector_reduce/operations/sum/does", "instructions/vector_reduce/operations/max/does"
_PLUS, _PRODUCT = (
    "instructions/vector_immediate/operations/add/does",
    "instructions/multiply/operations/accumulate/does",
)


def _does(name: str, path: str, text: str, reason: str) -> Case:
    return Case(name, "npu", path, text, path, reason)


def _unsigned(old: Any) -> Any:
    return [one | {"type": "unsigned"} if one["name"] == "immediate" else one for one in old]


FLOATS = (
    Case(
        "a memory of half precision", "npu", "memories/v/dtype", "float16", "memories/v/dtype", "float32",
        beyond_types=False,
    ),
    Case(
        "sums of products in floats", "npu", "memories/acc/dtype", "float32", _PRODUCT, "int32.*expected float32",
    ),
    _does("bits of floats", _ADD, "Y[0] = A[0] & B[0]", r"A\[0\] is float32; expected integers for '&'"),
    _does("a shift of floats", _ADD, "Y[0] = A[0] >> 2", r"A\[0\] is float32; expected integers for '>>'"),
    _does("a quotient of integers", _ADD, "Y[0] = i32(A[0]) / i32(B[0])", r"i32\(A\[0\]\) is int32; expected float32"),
    _does("a function of integers", _EXP, "Y[0] = exp(i32(A[0]))", r"i32\(A\[0\]\) is int32; expected float32: cast"),
    _does("a function of two", _EXP, "Y[0] = exp(A[0], A[0])", r"found ','; expected '\)'"),
    _does("a function that no document has", _EXP, "Y[0] = cosh(A[0])", "found 'cosh'; expected a function, one of"),
    _does("a float that is no float32", _EXP, "Y[0] = A[0] * 1e39", "found 1e.39 as float32; expected a number"),
    _does(
        "an integer that a float cannot hold", _EXP, "Y[0] = A[0] + 16777217",
        "found 16777217 as float32; expected an integer that it holds",
    ),
    Case(
        "a number of the instruction that is no float", "npu", "instructions/vector_immediate/fields", _unsigned, _PLUS,
        "immediate is int32; expected float32: cast it with f32",
    ),
    _does("a comparison of two types", _ADD, "Y[0] = select(A[0] < i32(B[0]), A[0], B[0])", "expected equal types"),
    _does("a sum of its own target", _SUM, "Y[0] += Y[0] + A[0]", r"'\+=' reads Y already; expected '='"),
    _does("a maximum of its own target", _MAX, "Y[0] max= max(Y[0], A[0])", "'max=' reads Y already; expected '='"),
    _does("a maximum that is no sign", _MAX, "Y[0] =max A[0]", r"found 'A'; expected '\('"),
    _does("a sign of nothing", _MAX, "Y[0] mean= A[0]", "found 'mean'; expected '=', '.=', 'max=' or 'min='"),
    _does("a difference that accumulates", _SUM, "Y[0] -= A[0]", "found '-'; expected '='"),
    _does("a maximum in another type", _MAX, "Y[0] max= i32(A[0])", r"i32\(A\[0\]\) is int32; expected float32"),
    _does("products of which the greatest stays", _PRODUCT, "ACC[n] max= i32(X[k]) * i32(W[n, k])", "expected '.='"),
    _does("a sum into a place that moves with it", _SUM, "Y[l] += Y[l] * A[l]", r"'\+=' reads Y already"),
)  # fmt: skip
