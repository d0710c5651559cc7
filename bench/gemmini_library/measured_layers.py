"""Layers whose cycles were measured on an FPGA, and what the model makes of the library's streams for them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accel.isa.gemmini.document.gemmini_parameters import Core, GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.stream_timing import cycles_of

from .library_streams import LibraryStream, Options, conv_stream, matmul_stream
from .library_tiling import Memories, without_padding

BUILT = Memories()  # what the library was built for, whatever memories the search was given: its tiles say so
OPTIONS = Options(bias=False)
CONV_TRIAL_CYCLES = 255  # of the processor for a candidate of a convolution's tile
MATMUL_TRIAL_CYCLES = 30
_SHAPE = ("N", "C", "K", "P", "Q", "R", "S", "stride", "dilation")


@dataclass(frozen=True)
class Measured:
    """A layer: its ``shape`` by name, the ``cycles`` measured, and whether it is of the half that is fitted to."""

    number: int
    shape: dict[str, int]
    cycles: int
    fitted: bool

    @property
    def is_product(self) -> bool:
        """Whether it ran as a product of matrices."""
        return self.shape["Q"] == 1


def measured_layers(path: Path) -> list[Measured]:
    """Returns the layers of a file: of every two different ones, in the order of the file, the first is fitted to.

    A layer that was measured in several builds is in one half alone, so that no layer of the other half was fitted to.
    """
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    order: dict[tuple[int, ...], int] = {}
    layers = []
    for number, row in enumerate(rows):
        shape = {name: int(row[name]) for name in _SHAPE}
        place = order.setdefault(tuple(shape.values()), len(order))
        layers.append(Measured(number, shape, row["library_cycles"], place % 2 == 0))
    return layers


def library_stream(layer: Measured) -> LibraryStream:
    """Returns what the library sends for a layer."""
    shape = layer.shape
    if layer.is_product:
        return matmul_stream(shape["N"] * shape["P"], shape["K"], shape["C"], BUILT, OPTIONS)
    return conv_stream(without_padding(shape), BUILT, OPTIONS)


def searching_cycles(layer: Measured, stream: LibraryStream) -> int:
    """Cycles in which the processor looks for the tile; the library asks once more whether a convolution's fits."""
    trials = stream.tiling.trials
    return MATMUL_TRIAL_CYCLES * trials if layer.is_product else CONV_TRIAL_CYCLES * (trials + 1)


@dataclass(frozen=True)
class Prediction:
    """Cycles of a layer: of the ``accelerator`` alone, and ``cycles`` with processor and memory."""

    layer: Measured
    accelerator: int
    cycles: int

    @property
    def error(self) -> float:
        """Of the cycles, relative to the measured ones."""
        return self.cycles / self.layer.cycles - 1


def predictions(layers: Sequence[Measured], parameters: GemminiParameters) -> list[Prediction]:
    """Returns what the model makes of layers; one that was measured several times is timed once."""
    known: dict[tuple[int, ...], tuple[int, int]] = {}
    found = []
    for layer in layers:
        key = tuple(layer.shape.values())
        if key not in known:
            known[key] = _timed(layer, parameters)
        found.append(Prediction(layer, *known[key]))
    return found


def _timed(layer: Measured, parameters: GemminiParameters) -> tuple[int, int]:
    stream = library_stream(layer)
    core = parameters.core or Core()
    start = core.start_cycles + searching_cycles(layer, stream)
    busy = parameters.model_copy(update={"core": core.model_copy(update={"start_cycles": start})})
    alone = parameters.model_copy(update={"core": None, "memory": None})
    context = LaunchContext.fresh(parameters)
    return cycles_of(stream.words, alone, context), cycles_of(stream.words, busy, context)


def spread(found: Sequence[Prediction]) -> tuple[float, float, float]:
    """Returns the median, the 90th percentile and the largest of the errors, percent."""
    errors = np.abs([each.error for each in found]) * 100
    return float(np.median(errors)), float(np.percentile(errors, 90)), float(errors.max())
