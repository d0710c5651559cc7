"""Functions of whole rows in TIR: what is stored at each element, as a call of the function.

``<function>_of_rows(stored, summed, *constants, columns)`` is the function at the accumulator ``stored``; what its
passes gather of other accumulators (:data:`accel.accelerator.row_functions.READS`) is of those that lie as ``summed``
does, of so many ``columns``. The constants are in the order of :data:`accel.accelerator.row_functions.CONSTANTS`. A
nest stores it for all elements of the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.ir import TensorLoad

from accel.accelerator.row_functions import CONSTANTS, RowConstant, RowFunctionName
from accel.errors import CompileError
from accel.lowering.ir.affine_nest import constant_value
from accel.lowering.ir.document_paths import INSTRUCTIONS

_NAMES: dict[str, RowFunctionName] = {f"{function}_of_rows": function for function in CONSTANTS}
_ACCUMULATORS = slice(1, 3)  # of the arguments, behind the name


@dataclass(frozen=True)
class StoredRow:
    """A call of a function of rows, read: the accumulators, the constants, and the scalars of a row that count."""

    function: RowFunctionName
    stored: TensorLoad
    summed: TensorLoad
    constants: dict[RowConstant, int]
    columns: int


def row_call(
    function: RowFunctionName, stored: tirx.Expr, summed: tirx.Expr, constants: Sequence[int], columns: int
) -> tirx.Expr:
    """Returns the call for one element."""
    assert len(constants) == len(CONSTANTS[function])
    numbers = [tirx.const(number, "int32") for number in (*constants, columns)]
    return tirx.call_pure_extern("int8", f"{function}_of_rows", stored, summed, *numbers)


def read_row(value: Any) -> StoredRow:
    """Returns the parts of a call that :func:`row_call` made.

    Raises:
        CompileError: it is none.
    """
    arguments = list(value.args) if isinstance(value, ir.Call) else []
    function = _NAMES.get(str(getattr(arguments[0], "value", ""))) if arguments else None
    loads = arguments[_ACCUMULATORS]
    if function is None or not loads or not all(isinstance(each, TensorLoad) for each in loads):
        raise CompileError(f"{value} is no function of rows", field=INSTRUCTIONS)
    *constants, columns = (constant_value(each) or 0 for each in arguments[_ACCUMULATORS.stop :])
    stored, summed = loads
    return StoredRow(function, stored, summed, dict(zip(CONSTANTS[function], constants, strict=True)), columns)
