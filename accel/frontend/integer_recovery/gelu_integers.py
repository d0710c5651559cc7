"""GELU in I-BERT's integers: the constants for numbers of a scale, what they make of sums, and how far that is off.

erf is a parabola up to a bound on each side, and 1 beyond (Kim et al., "I-BERT: Integer-only BERT Quantization", 2021).
The result is off by up to 0.02 for it, and by what the constants lose as integers: the more, the coarser the scale.
"""

import math
from dataclasses import dataclass

import numpy as np

from accel.frontend.integer_recovery.dataflow_block import QuantisedTensor
from accel.frontend.integer_recovery.operators.table_recovery import TableFunction
from accel.region.epilogue import INT8, IntegerGelu
from accel.util.arrays import Array, Float64, Int64

_A, _B = -0.2888, -1.769  # of the parabola that stands for erf
_LEAST_BOUND = 1.5  # below it there is no parabola left
_ERROR = 0.02  # of the parabola
_WEIGHTS = tuple(1 << shift for shift in range(7))  # by which int8 can be multiplied, as int8
_INT32_MAX = (1 << 31) - 1
_REACH = 8  # beyond it GELU is 0, or the number itself
_SAMPLES = 4097


@dataclass(frozen=True)
class StoredGelu:
    """The integers of a function: ``weight`` times the data less their zero point, then the function, then ``scale``.

    ``error`` is how many steps of the result the furthest is away.
    """

    weight: int
    gelu: IntegerGelu
    scale: float
    error: int


def times_gelu(function: TableFunction, data: QuantisedTensor, output: QuantisedTensor) -> float | None:
    """Returns by what a function of int8 is GELU, within a step of its result everywhere; None if it is another."""
    if {data.dtype, output.dtype} != {"int8"}:
        return None
    x = (np.arange(INT8[0], INT8[1] + 1) - int(data.zero_point)) * float(data.scale)
    steps = _fitted(_gelu(x), function.entries - float(output.zero_point), function.entries)
    nearest = np.clip(np.rint(_gelu(x) * steps) + int(output.zero_point), *INT8)
    return steps * float(output.scale) if steps and np.abs(nearest - function.entries).max() <= 1 else None


def accepted_error(times: float, output: QuantisedTensor) -> float:
    """Returns how many steps the integers may be off: the parabola's own error, and a step of two roundings."""
    return 1 + _ERROR * abs(times) / float(output.scale)


def gelu_of_integers(function: TableFunction, data: QuantisedTensor) -> StoredGelu | None:
    """Returns the integers nearest to a function of int8, of the least weight of equally near ones.

    None if int32 holds none.
    """
    integers, entries, found = np.arange(INT8[0], INT8[1] + 1) - int(data.zero_point), function.entries, []
    for weight in _WEIGHTS:
        gelu = _constants(float(data.scale) / weight)
        products = None if gelu is None else _products(weight * integers, gelu)
        if gelu is not None and products is not None:
            factor = np.float32(_fitted(products, entries, entries))
            found.append(StoredGelu(weight, gelu, float(factor), _error(products, factor, entries)))
    return min(found, key=lambda each: (each.error, each.weight), default=None)


def gelu_of_sums(scale: float, magnitude: int, steps: float) -> StoredGelu | None:
    """Returns the integers of GELU times ``steps``, of sums worth ``scale`` that are up to ``magnitude``.

    None if int32 does not hold what may come of them, which is largest of 0 and of the ends.
    """
    near = min(magnitude, int(_REACH / scale) + 1)
    sums = np.unique(np.rint([np.linspace(-far, far, _SAMPLES) for far in (near, magnitude)])).astype(np.int64)
    gelu = _constants(scale)
    products = None if gelu is None else _products(sums, gelu)
    if gelu is None or products is None:
        return None
    factor = np.float32(scale**3 * _A / 4 * steps)
    wanted = np.clip(np.rint(_gelu(sums * scale) * steps), *INT8)
    return StoredGelu(1, gelu, float(factor), _error(products, factor, wanted))


def _constants(scale: float) -> IntegerGelu | None:
    """The constants for numbers of a scale; None if it is so coarse, or so fine, that there are none."""
    bound, unit = _B * math.sqrt(2) / scale, 2 / _A / scale**2
    fits = -_INT32_MAX < bound < -_LEAST_BOUND and unit > -_INT32_MAX
    return IntegerGelu(round(bound), round(unit)) if fits else None


def _products(sums: Int64, gelu: IntegerGelu) -> Int64 | None:
    """What a store makes of sums before it scales; None if int32 does not hold all that comes between."""
    bent = np.minimum(np.abs(sums) + gelu.qb, 0)
    parabola = bent * bent + gelu.qc
    erf = np.where(sums < 0, -parabola, parabola) + gelu.qc
    largest = float(np.abs(sums).max()) * float(np.abs(erf).max())  # the last product is of all bits
    between = max(int(np.abs(each).max()) for each in (sums, bent * bent, parabola, erf))
    return sums * erf if largest < 2**62 and max(between, int(np.abs(sums * erf).max())) <= _INT32_MAX else None


def _error(products: Int64, factor: np.float32, wanted: Array) -> int:
    steps = np.clip(np.rint(products.astype(np.float32) * factor), *INT8)
    return int(np.abs(steps - wanted).max())


def _gelu(x: Array) -> Float64:
    return np.asarray(x / 2 * (1 + np.array([math.erf(each / math.sqrt(2)) for each in x])), np.float64)


def _fitted(values: Array, wanted: Array, entries: Array) -> float:
    """By what ``values`` are nearest to ``wanted``, of entries that are not clipped; 0 of none."""
    inside = (entries > INT8[0]) & (entries < INT8[1])
    known = values[inside].astype(np.float64)
    return float(known @ wanted[inside] / squares) if (squares := known @ known) else 0.0
