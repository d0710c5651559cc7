"""The tilings of a convolution that fit the scratchpads, the cheapest first by the cost function given.

``candidates.py`` makes them, and ``fits.py`` leaves out those that do not fit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.roles import Contraction
from accel.lowering.candidates import Candidates, Order, candidates, orders
from accel.lowering.contexts import apart
from accel.lowering.fits import fits
from accel.lowering.geometry import Convolution, Epilogue, Tiling

Cost = Callable[[Candidates, Convolution, Epilogue, Contraction, Accelerator], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Priced:
    """A tiling and its estimated cycles."""

    cycles: float
    tiling: Tiling


def plan_convolution(
    conv: Convolution, epilogue: Epilogue, accelerator: Accelerator, gemm: Contraction, cost: Cost, count: int = 1
) -> list[Priced]:
    """The ``count`` cheapest tilings that fit, the best first; none if not even the smallest does.

    The result's pitches are its height and width rounded up to whole tiles.
    """
    # where store and compute alternate inside a tile (planes) a second context gains nothing
    needed = apart(epilogue, accelerator, gemm)
    result_choices = (2, 1) if epilogue.planes == 1 or needed else (1,)
    for operand_contexts in (2, 1):
        found = []
        for result_contexts in result_choices:
            for order in orders(conv) if operand_contexts == 2 else ("stream",):
                c = candidates(conv, order, operand_contexts, result_contexts)
                fitting = fits(c, conv, epilogue, accelerator, gemm, order)
                if fitting.any():
                    price = np.where(fitting, cost(c, conv, epilogue, gemm, accelerator), np.inf)
                    found += _cheapest(price, c, conv, order, count)
        if found:
            return sorted(found, key=lambda priced: priced.cycles)[:count]
    return []


def _cheapest(
    price: npt.NDArray[np.float64], c: Candidates, conv: Convolution, order: Order, count: int
) -> list[Priced]:
    """The ``count`` candidates of least ``price`` (n,), which is infinite where one does not fit."""
    best = np.argsort(price, kind="stable")[:count]
    return [Priced(float(price[i]), _tiling(c, int(i), conv, order)) for i in best.tolist() if np.isfinite(price[i])]


def _tiling(c: Candidates, i: int, conv: Convolution, order: Order) -> Tiling:
    """Candidate ``i``."""
    rows, columns = int(c.out_rows[i]), int(c.out_columns[i])
    return Tiling(
        out_blocks=int(c.out_blocks[i]),
        out_rows=rows,
        out_columns=columns,
        in_blocks=int(c.in_blocks[i]),
        kernel_rows=int(c.kernel_rows[i]),
        kernel_columns=int(c.kernel_columns[i]),
        order=order,
        operand_contexts=c.contexts,
        result_contexts=c.result_contexts,
        out_pitch_h=-(-conv.out_height // rows) * rows,
        out_pitch_w=-(-conv.out_width // columns) * columns,
    )
