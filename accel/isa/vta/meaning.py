"""What VTA's instructions compute, as the document says it; the kernel computes the same.

In each text the tensors are called as VTA's own documents call them; others may call them otherwise.
"""

from typing import Literal

ImmediateWith = Literal["dst", "src"]

ACCUMULATE = "dst[b, o] += i32(data[b, i]) * i32(weights[o, i])"
ZERO = "dst[b, o] = 0"

# a shift takes five bits of its count, and a negative count shifts left
_ALU = {
    "min": "min({x}, {y})",
    "max": "max({x}, {y})",
    "add": "{x} + {y}",
    "shift_right": "{x} >> select({y} < 0, -(-{y} & 31), {y} & 31)",
    "multiply": "{x} * {y}",
}
ALU_OPERATIONS = tuple(_ALU)


def two_operands(operation: str) -> str:
    """``dst = operation(dst, src)``."""
    return "dst[b, o] = " + _ALU[operation].format(x="dst[b, o]", y="src[b, o]")


def with_immediate(operation: str, first: ImmediateWith) -> str:
    """``dst = operation(first, imm)``."""
    return "dst[b, o] = " + _ALU[operation].format(x=f"{first}[b, o]", y="imm")
