"""Indices that slide, wrongly said, and products that slide as no layer does."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import Case

_ROW, _TAP = "instructions/slide/operations/row/does", "instructions/point/operations/tap/does"


def _does(name: str, text: str, reason: str, path: str = _ROW) -> Case:
    return Case(name, "eyeriss", path, text, path, reason)


def _signed(old: Any) -> Any:
    return old | {"type": "signed"}


def _slid(old: Any) -> Any:
    return old | {"operations": [{"name": "every_second", "does": "sram[k] = dram[2 * k]"}]}


SLIDING = (
    _does(
        "a window beyond its operand", "ACC[i, n] += i32(X[4 * i + r, k]) * i32(W[r, n, k])",
        r"X\[4 \* i \+ r, k\] goes to 4 \* i \+ r = 62; expected at most 47",
    ),
    Case(
        "an operand too short for its windows", "eyeriss", "instructions/slide/operands/X/shape", [33, 4], _ROW,
        r"goes to stride \* i \+ r = 47 with stride = 3; expected at most 32",
    ),
    _does(
        "an offset beyond the operand", "ACC[i, n] += i32(X[i + r + 31, k]) * i32(W[r, n, k])",
        r"goes to i \+ r \+ 31 = 48; expected at most 47",
    ),
    _does(
        "an axis that nothing measures", "ACC[i, n] += i32(X[i + r, k]) * i32(W[0, n, k])",
        r"nothing says how long axis r of X\[i \+ r, k\] is; expected it as an index by itself",
    ),
    _does(
        "an axis twice in an index", "ACC[i, n] += i32(X[i + i, k]) * i32(W[r, n, k])",
        "found i again; expected each axis of an index once",
    ),
    _does(
        "an axis that stands still", "ACC[i, n] += i32(X[0 * i + r, k]) * i32(W[r, n, k])",
        "found the step 0; expected 1 to 65536",
    ),
    _does(
        "a step behind its axis", "ACC[i, n] += i32(X[i * 2 + r, k]) * i32(W[r, n, k])",
        "found '2'; expected the axis that steps",
    ),
    _does(
        "a window that goes back", "ACC[i, n] += i32(X[i - r, k]) * i32(W[r, n, k])", "found '-'; expected ','",
    ),
    _does(
        "a step that is no field", "ACC[i, n] += i32(X[pitch * i + r, k]) * i32(W[r, n, k])",
        "found the scalar pitch; expected one of opcode, stride",
    ),
    _does(
        "a target that is scattered", "ACC[2 * i, n] += i32(X[i + r, k]) * i32(W[r, n, k])",
        r"the target ACC\[2 \* i, n\] has an index of several parts; expected an axis or an integer",
    ),
    Case(
        "a step below nothing", "eyeriss", "instructions/point/fields/stride", _signed, _TAP,
        "stride is signed; a field that is a step is unsigned",
    ),
    Case(
        "a load that slides", "eyeriss", "instructions/load_x", _slid, "instructions/load_x/operations/0/does",
        r"dram\[2 \* k\] goes to 2 \* k = 6; expected at most 3",
    ),
    _does(
        "weights that slide with the data", "ACC[i, n] += i32(X[i, k]) * i32(W[stride * i, n, k])",
        r"axis i of X\[i, k\] is 48; expected 16 as elsewhere",
    ),
    _does(
        "one tensor in two windows", "ACC[i, n] += i32(X[i + r, k]) * i32(W[r, n, k]) + i32(X[i, k])",
        r"found X\[i, k\] beside X\[i \+ r, k\]; expected the same indices everywhere",
    ),
)  # fmt: skip
