"""Recovery of GELU as I-BERT's integers, for accelerators whose stores compute it of their accumulators.

erf is a parabola up to a bound on each side, and 1 beyond (Kim et al., "I-BERT: Integer-only BERT Quantization", 2021).
So the result is another than the table of the function has: by up to 0.02, and by what the constants lose as integers.
A function that is GELU, whatever nodes it is made of, becomes such integers where each of them is as near to the
function's own; where that is not so it stays a table, with the reason.
"""

import math
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.composite_functions import ScaledEpilogue
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor, shape_of
from accel.frontend.integer_recovery.operators.addition_recovery import RANKS
from accel.frontend.integer_recovery.operators.table_recovery import TableFunction, Tables
from accel.region.epilogue import INT8, IntegerGelu
from accel.util.arrays import Array, Int64

_A, _B = -0.2888, -1.769  # of the parabola that stands for erf
_ACCEPTED = 0.02  # of the parabola's own error; beside the rounding of both results
_WEIGHTS = tuple(1 << shift for shift in range(7))  # the products of int8 and a weight of int8
_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class StoredGelu:
    """The integers of a function: ``weight`` times the data less their zero point, then the function, then ``scale``.

    ``error`` is how many steps of the result the furthest of the 256 is away.
    """

    weight: int
    gelu: IntegerGelu
    scale: float
    error: int


def recover_gelu(rewrite: DataflowRewrite, binding: relax.Binding, tables: Tables) -> bool:
    """Replaces the quantize at the end of a GELU by ``elementwise`` with its integers; False where there are none.

    Where it is a GELU, but with no integers near enough, ``tables`` is told why.
    """
    function = tables.function(rewrite, binding)
    if function is None or function.data is None or function.output is None:
        return False
    times = times_gelu(function, function.data, function.output)
    if times is None:
        return False
    found = stored_gelu(function, function.data)
    accepted = 1 + _ACCEPTED * abs(times) / float(function.output.scale)
    refused = ""
    if function.output.zero_point:
        refused = f"leave 0 for 0, and the zero point of its result is {function.output.zero_point}"
    elif found is None:
        refused = "are beyond int32"
    elif found.error > accepted:
        refused = f"are up to {found.error} steps of its result away, where {accepted:.1f} would do"
    if refused or found is None:
        tables.reasons[str(binding.var.name)] = f"the integers of GELU that stores compute {refused}"
        return False
    _replace(rewrite, binding, function, found, -found.weight * int(function.data.zero_point))
    return True


def times_gelu(function: TableFunction, data: QuantisedTensor, output: QuantisedTensor) -> float | None:
    """Returns by what a function of int8 is GELU, within a step of its result everywhere; None if it is another."""
    if {data.dtype, output.dtype} != {"int8"}:
        return None
    x = (np.arange(INT8[0], INT8[1] + 1) - int(data.zero_point)) * float(data.scale)
    gelu = x / 2 * (1 + np.array([math.erf(each / math.sqrt(2)) for each in x]))
    steps = _fitted(gelu, function.entries - float(output.zero_point), function.entries)
    nearest = np.clip(np.rint(gelu * steps) + int(output.zero_point), *INT8)
    return steps * float(output.scale) if steps and np.abs(nearest - function.entries).max() <= 1 else None


def _fitted(values: Array, wanted: Array, entries: Array) -> float:
    """By what ``values`` are nearest to ``wanted``, of entries that are not clipped; 0 of none."""
    inside = (entries > INT8[0]) & (entries < INT8[1])
    known = values[inside].astype(np.float64)
    return float(known @ wanted[inside] / squares) if (squares := known @ known) else 0.0


def stored_gelu(function: TableFunction, data: QuantisedTensor) -> StoredGelu | None:
    """Returns the integers nearest to a function, of the least weight of equally near ones; None if none fit int32."""
    integers = np.arange(INT8[0], INT8[1] + 1) - int(data.zero_point)
    found = (_candidate(integers, weight, float(data.scale), function.entries) for weight in _WEIGHTS)
    return min(filter(None, found), key=lambda each: (each.error, each.weight), default=None)


def _candidate(integers: Int64, weight: int, scale: float, entries: Array) -> StoredGelu | None:
    """Those of data of ``scale`` times ``weight``; None if int32 does not hold them."""
    sums = integers * weight
    bound, unit = _B * math.sqrt(2) * weight / scale, 2 / _A * (weight / scale) ** 2
    if not (-_INT32_MAX < bound < -1.5 and -_INT32_MAX < unit):
        return None
    gelu = IntegerGelu(round(bound), round(unit))
    bent = np.minimum(np.abs(sums) + gelu.qb, 0)
    parabola = bent * bent + gelu.qc
    product = sums * (np.where(sums < 0, -parabola, parabola) + gelu.qc)
    if max(int(np.abs(each).max()) for each in (bent * bent, parabola, product)) > _INT32_MAX:
        return None
    factor = np.float32(_fitted(product, entries, entries))
    steps = np.clip(np.rint(product.astype(np.float32) * factor), *INT8)
    return StoredGelu(weight, gelu, float(factor), int(np.abs(steps - entries).max()))


def _replace(
    rewrite: DataflowRewrite, binding: relax.Binding, function: TableFunction, found: StoredGelu, offset: int
) -> None:
    """Bind the quantize to the composite, whose sums begin as ``offset``."""
    source, shape = function.source, shape_of(function.source)
    laid_out = shape if len(shape) in RANKS else [math.prod(shape[:-1]), math.prod(shape[-1:])]
    value: relax.Expr = source
    if laid_out != shape:
        value = rewrite.emit(relax.op.reshape(source, laid_out), binding.var, "rows")
    composite = composite_functions.elementwise(
        function.nodes,
        laid_out,
        (found.weight,),
        "sum",
        0,
        ScaledEpilogue(found.scale, *INT8, gelu=found.gelu),
        rounds=offset != 0,
    )
    arguments = [value]
    if offset:
        offsets: Array = np.full(laid_out[1], offset, np.int64)
        arguments.append(relax.const(composite_functions.along_channels(laid_out, offsets)))
    rewrite.origin[binding.var.name] = function.origin
    result: relax.Expr = tvm.ir.Call(rewrite.composite(composite, function.origin), arguments)
    if laid_out != shape:
        result = relax.op.reshape(rewrite.emit(result, binding.var, "gelu"), shape)
    rewrite.bind(binding.var, result)
