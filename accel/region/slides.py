"""Contractions that slide: which tiles their operations do, as each does several columns and taps at once."""

import numpy as np

from accel.accelerator.contraction import Contraction, Slide
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates
from accel.util.arrays import Bools, Int64


def columns_at_once(gemm: Contraction) -> tuple[int, ...]:
    """Returns how many columns of a result its operations do at once, each number once; 1 where none slides."""
    return tuple(sorted({slide.columns for slide in gemm.slides})) or (1,)


def slides_over(slide: Slide, conv: Convolution) -> bool:
    """Returns whether an operation does convolutions of such a stride and such taps, whatever the tile."""
    tapped = slide.taps == 1 or (conv.dilation[1] in slide.dilations and not conv.uniform)
    return tapped and conv.strides[1] in slide.strides and conv.kernel[1] % slide.taps == 0


def slide_of(c: Candidates, conv: Convolution, gemm: Contraction) -> Int64:
    """Returns which of ``gemm.slides`` does each candidate (n,), the first that can; their count where none does."""
    found = np.full_like(c.out_columns, len(gemm.slides))
    for number, slide in reversed(list(enumerate(gemm.slides))):
        if slides_over(slide, conv):
            does: Bools = (c.out_columns % slide.columns == 0) & (c.kernel_columns % slide.taps == 0)
            found[does] = number
    return found
