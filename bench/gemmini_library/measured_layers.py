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

from .library_streams import LibraryStream
from .measured_programs import FROM_LINE, Shape, is_product, measured_stream, programs_of

CONV_TRIAL_CYCLES = 255  # of the processor for a candidate of a convolution's tile
MATMUL_TRIAL_CYCLES = 30
RAN_BEFORE = 5  # layers whose lines may still be in a cache: they have more than it holds
_SHAPE = ("N", "C", "K", "P", "Q", "R", "S", "stride", "dilation")
_BUILD = ("accumulator_rows", "scratchpad_rows")


@dataclass(frozen=True)
class Measured:
    """A layer that was measured.

    Attributes:
        number: its row of the file.
        shape: of the layer, in the order of ``_SHAPE``.
        cycles: measured.
        fitted: whether it is of the half that is fitted to.
        before: the layers that the program ran before it, the last one last.
        build: the memories that the file names: what tells builds apart.
        from_line: bytes from the beginning of a line of the caches to where each array of the program begins.
    """

    number: int
    shape: Shape
    cycles: int
    fitted: bool
    before: tuple[Shape, ...]
    build: tuple[int, ...]
    from_line: int


def measured_layers(path: Path) -> list[Measured]:
    """Returns the layers of a file: of every two different ones, in the order of the file, the first is fitted to.

    A layer that was measured in several builds is in one half alone, so that no layer of the other half was fitted to.

    Raises:
        ValueError: a layer that no known program ran.
    """
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    shapes = [tuple(int(row[name]) for name in _SHAPE) for row in rows]
    builds: dict[tuple[int, ...], set[Shape]] = {}
    for row, shape in zip(rows, shapes, strict=True):
        builds.setdefault(_build(row), set()).add(shape)
    order = {shape: place for place, shape in enumerate(dict.fromkeys(shapes))}
    layers = []
    for number, (row, shape) in enumerate(zip(rows, shapes, strict=True)):
        program = next(each for each in programs_of(builds[_build(row)]) if shape in each)
        before = program[: program.index(shape)][-RAN_BEFORE:]
        from_line = FROM_LINE[_build(row)][is_product(shape)]
        fitted = order[shape] % 2 == 0
        layers.append(Measured(number, shape, row["library_cycles"], fitted, before, _build(row), from_line or 0))
    return layers


def _build(row: dict[str, Any]) -> tuple[int, ...]:
    """What tells the file's builds apart, one for a network and a search: the memories that the search chose."""
    return tuple(int(row[name]) for name in _BUILD)


def searching_cycles(shape: Shape, stream: LibraryStream) -> int:
    """Cycles in which the processor looks for the tile; the library asks once more whether a convolution's fits."""
    trials = stream.tiling.trials
    return MATMUL_TRIAL_CYCLES * trials if is_product(shape) else CONV_TRIAL_CYCLES * (trials + 1)


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
    """Returns what the model makes of layers; one that was measured several times behind the same is timed once."""
    known: dict[tuple[int, tuple[Shape, ...]], tuple[int, int]] = {}
    found = []
    for layer in layers:
        key = layer.from_line, (*layer.before, layer.shape)
        if key not in known:
            known[key] = _timed(layer, parameters)
        found.append(Prediction(layer, *known[key]))
    return found


def _timed(layer: Measured, parameters: GemminiParameters) -> tuple[int, int]:
    stream = measured_stream(layer.shape, layer.from_line)
    core = parameters.core or Core()
    start = core.start_cycles + searching_cycles(layer.shape, stream)
    busy = parameters.model_copy(update={"core": core.model_copy(update={"start_cycles": start})})
    alone = parameters.model_copy(update={"core": None, "memory": None})
    context = LaunchContext.fresh(parameters)
    before = [measured_stream(shape, layer.from_line).words for shape in layer.before]
    return cycles_of(stream.words, alone, context), cycles_of(stream.words, busy, context, before)


def spread(found: Sequence[Prediction]) -> tuple[float, float, float]:
    """Returns the median, the 90th percentile and the largest of the errors, percent."""
    errors = np.abs([each.error for each in found]) * 100
    return float(np.median(errors)), float(np.percentile(errors, 90)), float(errors.max())
