"""Functions of whole rows in TIR: what is stored at each element, as a call of the function.

``softmax_of_rows(stored, summed, ln2, inverse, b, c, columns)`` is softmax at the accumulator ``stored``;
what is summed of its row are the exponentials of accumulators that lie as ``summed`` does, of so many ``columns``
(:class:`accel.region.row_softmax.IntegerSoftmax`). A nest stores it for all elements of the rows.
"""

from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.ir import TensorLoad

from accel.accelerator.row_functions import RowConstant
from accel.errors import CompileError
from accel.lowering.ir.affine_nest import constant_value
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.region.row_softmax import IntegerSoftmax

_SOFTMAX = "softmax_of_rows"
_OPERANDS = 8


@dataclass(frozen=True)
class StoredRow:
    """A call of a function of rows, read: the accumulators, the constants, and the scalars of a row that count."""

    stored: TensorLoad
    summed: TensorLoad
    constants: dict[RowConstant, int]
    columns: int


def softmax_of_rows(stored: tirx.Expr, summed: tirx.Expr, softmax: IntegerSoftmax, columns: int) -> tirx.Expr:
    """Returns the call for one element."""
    numbers = (softmax.ln2, softmax.inverse, softmax.b, softmax.c, columns)
    constants = [tirx.const(number, "int32") for number in numbers]
    return tirx.call_pure_extern("int8", _SOFTMAX, stored, summed, *constants)


def read_softmax(value: Any) -> StoredRow:
    """Returns the parts of a call that :func:`softmax_of_rows` made.

    Raises:
        CompileError: it is none.
    """
    arguments = list(value.args) if isinstance(value, ir.Call) else []
    named = len(arguments) == _OPERANDS and str(getattr(arguments[0], "value", "")) == _SOFTMAX
    if not named or not all(isinstance(each, TensorLoad) for each in arguments[1:3]):
        raise CompileError(f"{value} is no softmax of rows", field=INSTRUCTIONS)
    ln2, inverse, b, c, columns = (constant_value(each) or 0 for each in arguments[3:])
    constants: dict[RowConstant, int] = {"ln2": ln2, "inverse": inverse, "b": b, "c": c}
    return StoredRow(arguments[1], arguments[2], constants, columns)
