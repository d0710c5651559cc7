"""Operations that are nearly a contraction."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import Case

_MATMUL, _VMAC = (
    f"instructions/{name}/operations/{operation}/does"
    for name, operation in (("matmul", "multiply"), ("vmac", "accumulate"))
)
_LIKE = r"one must do something like 'C\[i, j\] \+= i32\(A\[i, k\]\) \* i32\(B\[j, k\]\)'"


def _near(name: str, base: str, path: str, does: str, reason: str) -> Case:
    return Case(name, base, path, does, path, f"none multiplies and accumulates; the nearest is .*{reason}.*; {_LIKE}")


def _overwriting(old: Any) -> Any:
    """The instructions, of which one overwrites where it cleared, and none loads sums."""
    for one in old:
        for operation in one.get("operations", ()):
            if operation["name"] == "zero":
                operation["does"] = "ACC[l] = i32(X[0]) * i32(W[l])"
    return [one for one in old if one["name"] not in ("load_acc", "load_acc8")]


CONTRACTIONS = (
    _near(
        "a number where an axis is summed", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i, 0]) * i32(B[0, j])",
        r"A\[i, 0\] is always at 0 of 8 along axis 1, and no axis is summed; expected an axis there",
    ),
    _near(
        "a row for all rows", "mvin-mvout", _MATMUL, "C[0, j] += i32(A[0, k]) * i32(B[k, j])",
        r"C\[0, j\] is always at 0 of 4 along axis 0; expected an axis there",
    ),
    _near(
        "a product that is never summed", "vector", _VMAC, "ACC[l] = i32(X[0]) * i32(W[l])",
        r"'=' keeps no sum from one execution to the next; expected '\+='",
    ),
    _near(
        "a product within 8 bits", "mvin-mvout", _MATMUL, "C[i, j] += i32(i8(A[i, k]) * B[k, j])",
        r"i8\(A\[i, k\]\) \* B\[k, j\] may go beyond its type before it is i32; expected a cast of each factor",
    ),
    _near(
        "a product that is taken away", "mvin-mvout", _MATMUL, "C[i, j] += -(i32(A[i, k]) * i32(B[k, j]))",
        r"is not the product of two operands alone",
    ),
    _near(
        "a product of three", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i, k]) * i32(B[k, j]) * 2",
        r"is not the product of two operands alone",
    ),
    _near(
        "an axis of one factor alone", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i, k]) * i32(B[l, j])",
        r"k is in A\[i, k\] alone; an axis is in two of C\[i, j\], A\[i, k\], B\[l, j\]",
    ),
    Case(
        "sums that begin by overwriting", "vector", "instructions", _overwriting, "instructions",
        r"nothing begins the sums of vmac; zero, which overwrites, begins none: it must also do ACC\[...\] = 0",
    ),
)  # fmt: skip
