"""Tilings by instructions as large as a layer: the nest of a whole layer is matched once, its tiles are priced by it.

A tile may be all of the layer, as far as the fields and what the instruction uses on the chip allow. Its price is the
cost that the document gives the instruction, of each candidate's fields, times the number of its tiles.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from tvm import ir, tirx

from accel.accelerator.instructions import Layer
from accel.errors import CompileError
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.inject.layer_injection import answering
from accel.lowering.inject.layer_matching import LayerMatch, OtherStatementsError, match_within
from accel.lowering.ir.affine_nest import constant_value
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.ir.layer_numbers import elements_used, layer_numbers, number_of_cost
from accel.lowering.ir.plain_loops import PLAIN_LOOPS
from accel.lowering.ir.tir_walk import pragma_nests
from accel.lowering.kinds.layers.layer_schedule import TILE_LOOPS, layer_of
from accel.lowering.kinds.region_kind import UsedOperation
from accel.region.kinds import Region
from accel.region.shapes import RegionShape
from accel.region.tilings import Tiling, tile_extents
from accel.util.arrays import Bools, Float64, Int64

Scheduled = Callable[[Region[Any]], tirx.PrimFunc]
_NAME = "layer"
_REFUSED = 8  # candidates that the instruction does not do, of which no more are looked at


@dataclass(frozen=True)
class LayerTiling:
    """A tiling by an instruction as large as a layer, and its estimated cycles."""

    cycles: float
    tiling: Tiling


@dataclass(frozen=True)
class TileAxes:
    """What may be cut: extents of the tile's loops that are worth a price, and how rows and columns of data are padded.

    ``windows`` are (stride, padding before, size of the data) of rows and of columns; a tile begins within the data.
    """

    blocks: Sequence[int]
    rows: int
    columns: int
    windows: tuple[tuple[int, int, int], tuple[int, int, int]] = ((1, 0, 1 << 31), (1, 0, 1 << 31))


@dataclass(frozen=True)
class LayerCandidates:
    """All tilings of a region by each layer that does it, and why others do not, or why none does."""

    priced: "Sequence[_Priced]"
    why: str

    def cheapest(self, count: int, *, dividing: bool, limit: float = math.inf) -> list[LayerTiling] | str:
        """The cheapest tilings; a string says why there is none.

        Args:
            count: how many there may be.
            dividing: leave the room around the result alone, by tiles that divide it.
            limit: cycles that none may cost more than.
        """
        found: list[LayerTiling] = []
        why = self.why
        for priced in self.priced:
            tilings = priced.cheapest(count, dividing=dividing, limit=limit)
            why = why or ("" if tilings else f"no tile of it fits the fields and memories of {priced.layer.name}")
            found += tilings
        return sorted(found, key=lambda each: each.cycles)[:count] if found else why


def layer_candidates(
    region: Region, axes: TileAxes, scheduled: Scheduled, capabilities: Capabilities
) -> LayerCandidates:
    """The tilings of a region by the layers of the document.

    Args:
        region: with a tiling of the whole layer.
        axes: how it may be cut.
        scheduled: makes the function of a region, scheduled as its tiling says.
        capabilities: what the accelerator can do.
    """
    layers = capabilities.accelerator.layers
    if not layers:
        return LayerCandidates((), f"{capabilities.accelerator.title} has no instructions as large as a layer")
    priced, why, unlike = list[_Priced](), "", ""
    first = replace(region, tiling=replace(region.tiling, layer=layers[0].name))
    nest = functools.cache(lambda: _nest(first, scheduled, layers[0].pragma))
    for layer in layers:
        whole = replace(region, tiling=replace(region.tiling, layer=layer.name))
        answer = _answer(whole, layer, nest, capabilities)
        if answer.match is not None:
            priced.append(_Priced(whole, axes, answer.match, layer, capabilities, scheduled))
        elif answer.unlike:
            unlike = unlike or answer.why
        else:
            why = why or answer.why
    return LayerCandidates(priced, why or unlike)


@dataclass(frozen=True)
class _WholeMatch:
    """What prices read of the match of a whole layer.

    Attributes:
        numbers: in fields, before they are encoded.
        extents: of the instruction's loops, with the axis of the tile that cuts each, if one does.
        around: axes of loops that the instruction does not make itself.
    """

    numbers: dict[str, float]
    extents: dict[str, tuple[int, int | None]]
    around: tuple[int, ...]


@dataclass(frozen=True)
class _Answer:
    """The match of a layer with an instruction; or why there is none, and if it has other statements at that."""

    match: _WholeMatch | None = None
    why: str = ""
    unlike: bool = False


_ANSWER = TypeAdapter(_Answer)
_YES, _NO = b"true", b"false"


def _answer(
    region: Region[RegionShape], layer: Layer, nest: Callable[[], tirx.Stmt], capabilities: Capabilities
) -> _Answer:
    """Whether the instruction that its tiling names does a whole layer, whose nest is made if nobody has asked."""

    def find() -> bytes:
        try:
            found = _Answer(_whole_match(region.tiling, layer, _matched(nest(), layer, capabilities)))
        except OtherStatementsError as error:
            found = _Answer(why=error.detail, unlike=True)
        except CompileError as error:
            found = _Answer(why=error.detail)
        return _ANSWER.dump_json(found)

    kept = capabilities.target.derived(kept_answers)
    return _ANSWER.validate_json(kept.ask(f"whole {dump_region(region)}", find))


def _whole_match(
    tiling: Tiling, layer: Layer, matched: tuple[LayerMatch, list[tuple[tirx.Var, int]], list[tirx.Var]]
) -> _WholeMatch:
    match, around, loops = matched
    whole = (tiling.out_blocks, tiling.out_rows, tiling.out_columns)
    axis_of = dict(zip(loops, (axis for axis in range(TILE_LOOPS) if whole[axis] > 1), strict=False))
    extents = {
        name: (1, None) if loop is None else (int(loop.extent), axis_of.get(loop.variable))
        for name, loop in match.loops.items()
    }
    repeated = tuple(axis_of[variable] for variable, extent in around if extent > 1)
    return _WholeMatch(layer_numbers(layer, match.fields), extents, repeated)


def layer_tilings(
    region: Region, axes: TileAxes, scheduled: Scheduled, capabilities: Capabilities, count: int, *, dividing: bool
) -> list[LayerTiling] | str:
    """The cheapest of :func:`layer_candidates`, as :meth:`LayerCandidates.cheapest` has them."""
    return layer_candidates(region, axes, scheduled, capabilities).cheapest(count, dividing=dividing)


def _nest(region: Region[RegionShape], scheduled: Scheduled, pragma: str) -> tirx.Stmt:
    """The nest of a whole layer, which is the same for every instruction that may do it."""
    function = scheduled(region).with_attr("global_symbol", _NAME)
    body = PLAIN_LOOPS(ir.IRModule({_NAME: function}))[_NAME].body
    (nest,) = pragma_nests(body, {pragma})
    return nest.body


def _matched(
    nest: tirx.Stmt, layer: Layer, capabilities: Capabilities
) -> tuple[LayerMatch, list[tuple[tirx.Var, int]], list[tirx.Var]]:
    """The match of the nest of a whole layer, the loops around it, and those of its result that are longer than 1.

    Raises:
        CompileError: no operation of the layer does it.
    """
    known = [each for each in answering(layer.pragma, capabilities.target) if each.instruction is layer]
    around, match = match_within(nest, known, capabilities.target)
    return match, around, _loops_of(nest)


def _loops_of(statement: tirx.Stmt) -> list[tirx.Var]:
    """The loops of a nest from the outside in that are longer than 1, as far as they stand one in the other."""
    found = []
    while isinstance(statement, tirx.For | tirx.AttrStmt):
        if isinstance(statement, tirx.For) and constant_value(statement.extent) != 1:
            found.append(statement.loop_var)
        statement = statement.body
    return found


class _Priced:
    """All candidates (n,) of a region by one layer."""

    def __init__(
        self,
        region: Region[RegionShape],
        axes: TileAxes,
        match: _WholeMatch,
        layer: Layer,
        capabilities: Capabilities,
        scheduled: Scheduled,
    ) -> None:
        self.region, self.axes, self.layer = region, axes, layer
        self.capabilities, self.scheduled = capabilities, scheduled
        self.match = match
        self.accelerator = capabilities.accelerator
        self._done: dict[int, bool] = {}
        choices = [list(axes.blocks), tile_extents(axes.rows), tile_extents(axes.columns)]
        grids = np.meshgrid(*(np.array(each, np.int64) for each in choices), indexing="ij")
        self.tiles: list[Int64] = [grid.ravel() for grid in grids]
        self.made_whole = not match.around
        self.repeats = np.ones_like(self.tiles[0])
        for axis in match.around:
            self.repeats = self.repeats * self.tiles[axis]

    def cheapest(self, count: int, *, dividing: bool, limit: float) -> list[LayerTiling]:
        """The ``count`` cheapest that fit, of at most ``limit`` cycles."""
        fits = self._fits.copy()
        rows, columns = self.axes.rows, self.axes.columns
        if dividing:
            fits &= (rows % self.tiles[1] == 0) & (columns % self.tiles[2] == 0)
        if not fits.any():
            return []
        price = np.where(fits, self._prices, np.inf)
        best = np.argsort(price, kind="stable")[: count + _REFUSED].tolist()
        tried = (at for at in best if np.isfinite(price[at]) and price[at] <= limit and self._does(at))
        return [LayerTiling(float(price[at]), self._tiling(at)) for at in itertools.islice(tried, count)]

    def _does(self, at: int) -> bool:
        """Whether the layer does a candidate's tiles."""
        if at not in self._done:
            self._done[at] = self._is_matched(at)
        return self._done[at]

    def _is_matched(self, at: int) -> bool:
        """Whether the layer does a candidate's tiles.

        Only those that cut evenly, and no loop to one, are like all of it, where the instruction makes all loops.
        """
        whole = (self.axes.rows, self.axes.columns)
        tile = [int(each[at]) for each in self.tiles]
        if self.made_whole and all(
            size % each == 0 and (each > 1 or size == 1) for size, each in zip(whole, tile[1:], strict=True)
        ):
            return True
        region = replace(self.region, tiling=self._tiling(at))

        def find() -> bytes:
            try:
                _matched(_nest(region, self.scheduled, self.layer.pragma), self.layer, self.capabilities)
            except CompileError:
                return _NO
            return _YES

        return self.capabilities.target.derived(kept_answers).ask(f"tiles {dump_region(region)}", find) == _YES

    def _tiling(self, at: int) -> Tiling:
        blocks, rows, columns = (int(each[at]) for each in self.tiles)
        return replace(
            self.region.tiling,
            out_blocks=blocks,
            out_rows=rows,
            out_columns=columns,
            out_pitch_h=-(-self.axes.rows // rows) * rows,
            out_pitch_w=-(-self.axes.columns // columns) * columns,
        )

    @cached_property
    def _prices(self) -> Float64:
        """Cycles of all tiles of each candidate (n,)."""
        shape, (blocks, rows, columns) = self.region.shape.result, self.tiles
        tiles = shape.batch * (shape.blocks // blocks) * -(-self.axes.rows // rows) * -(-self.axes.columns // columns)
        each = np.maximum(np.ceil(self._cost(self.layer.cycles or "1")), 1)
        return tiles * self.repeats * each + self._cost(self.layer.alone or "0")

    @cached_property
    def _fits(self) -> Bools:
        """Which candidates fit, as an earlier job may have found."""
        answers, count = self.capabilities.target.derived(kept_answers), len(self.tiles[0])
        question = f"fits {self.layer.name} {self.axes} {dump_region(self.region)}"
        known = answers.find(question)
        if known is None or len(known) != count:
            known = self._fitting().tobytes()
            answers.note(question, known)
        return np.frombuffer(known, np.bool_)

    def _fitting(self) -> Bools:
        """Which candidates fit the fields and the memories, and begin every tile within the data."""
        fits = np.ones(len(self.tiles[0]), np.bool_)
        limits = {loop.extent: loop.limit for loop in self.layer.loops}
        for name, values in self._fields.items():
            field = self.accelerator.field(self.layer, name)
            low, high = field.limits
            if field.type != "float32":
                fits &= (values >= low) & (values <= min(high - 1, limits.get(name) or high))
        least: dict[str, int] = {}  # what each expression must be less than, as many fields have the same one
        for name, text in self.layer.follows.items():  # what is padded behind a tile is less than nothing of the whole
            field = self.accelerator.field(self.layer, name)
            if field.type != "float32":
                least[text] = min(field.limits[1], least.get(text, field.limits[1]))
        for text, limit in least.items():
            fits &= self._cost(text) < limit
        for memory in self.layer.uses:
            used = elements_used(memory, self.layer, self._fields, self.accelerator)
            fits &= used <= self.accelerator.memory(memory).depth
        if not any(operand.windows for operand in self.layer.operands.values()):  # nor is anything padded
            fits &= (self.axes.rows % self.tiles[1] == 0) & (self.axes.columns % self.tiles[2] == 0)
        for tile, extent, (stride, before, size) in zip(
            self.tiles[1:], (self.axes.rows, self.axes.columns), self.axes.windows, strict=True
        ):
            count = -(-extent // tile)
            fits &= (count == 1) | (((count - 1) * tile * stride - before < size) & (before <= tile * stride))
        return fits

    def _cost(self, text: str) -> Float64:
        """A cost (n,) of the candidates; addresses count as 0."""
        return number_of_cost(text, self.layer, self._fields, self.accelerator) * np.ones(len(self.tiles[0]))

    @cached_property
    def _fields(self) -> dict[str, Float64]:
        """The numbers (n,) of the fields, but for addresses."""
        one = np.ones(len(self.tiles[0]))
        found = {name: one * number for name, number in self.match.numbers.items()}
        for name, (extent, axis) in self.match.extents.items():
            found[name] = one * (extent if axis is None else self.tiles[axis])
        for operand in self.layer.operands.values():
            for window in operand.windows:
                reach = sum((found[extent] - 1) * found.get(over, one) for extent, over in window.over.items())
                found[window.extent] = np.minimum(found[window.extent], reach + 1)
        return found


def layer_operations(region: Region, scheduled: Scheduled, capabilities: Capabilities) -> Iterator[UsedOperation]:
    """The operation of the layer that does a region's tiles."""
    layer = layer_of(region.tiling, capabilities)
    match, _, _ = _matched(_nest(region, scheduled, layer.pragma), layer, capabilities)
    yield UsedOperation("contract" if match.meaning.sums else "compute", layer, match.meaning.operation)
