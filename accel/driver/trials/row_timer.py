"""Cycles of regions that run as one, each with its neighbours, for autotuning of joined launches.

A few launches of a network become a program by themselves: a result lies where the next region reads it, all else lies
apart. So a trial knows whether the first load of a layer waits for the last store of the one before.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.trials.region_timer import RegionTimer
from accel.errors import CyclopsError
from accel.isa.decode import Decoded, decode
from accel.isa.family import Family
from accel.isa.family_registry import arrangement_of, family_of
from accel.joining.joined_launches import join_launches
from accel.lowering.codegen.dram_map import DramMap, dram_alignment, table_unit
from accel.lowering.codegen.microop_tables import expand_tables, microops_of
from accel.lowering.codegen.region_object import RegionObject
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.kinds.region_images import region_function
from accel.lowering.kinds.registry import kind_of
from accel.lowering.partition.launch_rows import RowLaunch
from accel.program.program_model import InstructionOrigin, Launch, Program, Segment
from accel.region.kinds import Region
from accel.region.shapes import Addition, Convolution, PackedActivation, Sides
from accel.simulate.engine import simulate
from accel.util.arrays import Int32, Words
from accel.util.content_cache import CacheStore, SealedCache, cache_key

MOST_INSTRUCTIONS = 20_000
"""How many instructions launches may have to be timed as one: a few tenths of a second."""

_NONE: Sides = (0, 0, 0, 0)
_ORIGIN = InstructionOrigin((), "", 0, "", "")


class RowTimer:
    """Times launches as they run as one; what is known already is in a cache.

    Args:
        target: the accelerator.
        timer: lowers regions, and keeps them for the job.
        cache: where cycles are kept, under the whole document.
    """

    def __init__(self, target: Target, timer: RegionTimer, cache: CacheStore | None = None) -> None:
        self._target, self._timer, self._kept = target, timer, SealedCache(cache)
        self._family: Family = family_of(target.accelerator)
        self._document = target.accelerator.model_dump_json()
        self._known: dict[str, int | None] = {}
        self._made = _MadeOnce(target)

    def expect(self, rows: Sequence[Sequence[RowLaunch]]) -> None:
        """Begin to lower what will be timed, in another process if there is one; nothing of rows that were timed."""
        new = [row for row in rows if self._kept.get(self._entry(_key(row))) is None]
        self._timer.expect([launch.region for row in new for launch in _as_they_lie(row)])

    def __call__(self, row: Sequence[RowLaunch]) -> int | None:
        """Returns the cycles of launches that run as one; None where they cannot be said."""
        key = _key(row)
        if key not in self._known:
            self._known[key] = self._kept_cycles(key, row)
        return self._known[key]

    def _kept_cycles(self, key: str, row: Sequence[RowLaunch]) -> int | None:
        entry = self._entry(key)
        known = self._kept.get(entry)
        if known is not None and known.isdigit():
            return int(known)
        cycles = self._cycles(_as_they_lie(row))
        if cycles is not None:
            self._kept.put(entry, str(cycles).encode())
        return cycles

    def _entry(self, key: str) -> str:
        return cache_key("row cycles", self._document, key)

    def _cycles(self, row: Sequence[RowLaunch]) -> int | None:
        self._timer.expect([launch.region for launch in row], share=True)
        objects = list[RegionObject]()
        for launch in row:
            made = self._timer.object_of(launch.region)
            if made is None or sum(len(each.code.words) for each in [*objects, made]) > MOST_INSTRUCTIONS:
                return None
            objects.append(made)
        try:
            program = _RowProgram(self._target, self._made).of(row, objects)
            program = join_launches(program, self._family, self._made.decoded)
            return simulate(program, {}, function=False).cycles
        except CyclopsError:  # the stages will say why, if the regions are taken
            return None


def _key(row: Sequence[RowLaunch]) -> str:
    """What the cycles of a row depend on: instructions take as long for other numbers of an epilogue."""
    regions = (replace(launch.region, epilogue=launch.region.epilogue.unnumbered) for launch in row)
    return repr([(dump_region(region), launch.reads) for region, launch in zip(regions, row, strict=True)])


def _as_they_lie(row: Sequence[RowLaunch]) -> list[RowLaunch]:
    """The launches over results of one another as these lie, within the borders that their readers want around them."""
    borders = dict.fromkeys(range(len(row)), _NONE)
    for launch in row:
        shape, made = launch.region.shape, launch.reads[0] if launch.reads else None
        if isinstance(shape, Convolution) and made is not None:
            top, left, bottom, right = map(max, borders[made], _around(shape.data, row[made].region.shape.result))
            borders[made] = top, left, bottom, right
    found = list[RowLaunch]()
    for launch in row:
        region = replace(launch.region, border=borders[len(found)])
        results = [None if made is None else found[made].region.result for made in launch.reads]
        found.append(replace(launch, region=_reading(region, results)))
    return found


def _around(data: PackedActivation, result: PackedActivation) -> Sides:
    """The border within which data have a result: half of it on each side, as nothing here says how it is parted."""
    high, wide = data.height - result.height, data.width - result.width
    if (data.batch, data.blocks) != (result.batch, result.blocks) or high < 0 or wide < 0:
        return _NONE
    return high // 2, wide // 2, high - high // 2, wide - wide // 2


def _reading(region: Region, results: Sequence[PackedActivation | None]) -> Region:
    """A region over activations that lie as ``results`` do, those of them that have the same extents."""

    def read(number: int, own: PackedActivation) -> PackedActivation:
        made = results[number] if number < len(results) else None
        window = None if made is None else made.grown(_around(own, made))
        return own if window is None or window.extents != own.extents else window

    shape = region.shape
    if isinstance(shape, Convolution):
        addend = None if shape.addend is None else read(1, shape.addend)
        return replace(region, shape=replace(shape, data=read(0, shape.data), addend=addend))
    if isinstance(shape, Addition):
        first, second = shape.operands
        return replace(region, shape=replace(shape, operands=(read(0, first), read(1, second))))
    return region


class _MadeOnce:
    """What launches have in every program of a row that they are in."""

    def __init__(self, target: Target) -> None:
        self._contraction, self._arrange = target.contraction, arrangement_of(target.accelerator)
        self._parameters: dict[str, list[_Parameter]] = {}
        self._arranged: dict[bytes, Words] = {}
        self._decoded: dict[bytes, Decoded] = {}

    def parameters(self, region: Region) -> Sequence["_Parameter"]:
        """Returns the names, shapes and types of the tensors of a region's function."""
        attribute = dump_region(region)
        if attribute not in self._parameters:
            self._parameters[attribute] = [
                (str(each.name), tuple(int(extent) for extent in each.shape), str(each.dtype))
                for each in region_function(region, self._contraction).params
            ]
        return self._parameters[attribute]

    def arranged(self, words: Words) -> Words:
        """Returns a launch's words as they are sent."""
        if self._arrange is None:
            return words
        key = words.tobytes()
        if key not in self._arranged:
            self._arranged[key] = self._arrange(words)[0]
        return self._arranged[key]

    def decoded(self, accelerator: Accelerator, words: Words, first: int) -> Decoded:
        """Returns a launch by field, with all that was derived of it."""
        key = words.tobytes()
        if key not in self._decoded:
            self._decoded[key] = decode(accelerator, words, first)
        return self._decoded[key]


_Parameter = tuple[str, tuple[int, ...], str]


class _RowProgram:
    """Makes the program of a row of launches alone; constants but tables of micro-ops are zeros."""

    def __init__(self, target: Target, made: _MadeOnce) -> None:
        self._once, self._accelerator = made, target.accelerator
        self._dram = DramMap(dram_alignment(self._accelerator))
        self._results: list[Segment] = []
        self._steps: list[Launch] = []
        self._words: list[Words] = []

    def of(self, row: Sequence[RowLaunch], objects: Sequence[RegionObject]) -> Program:
        """Returns the program, whose launches are still apart.

        Raises:
            CompileError: a field cannot hold an address.
        """
        for launch, made in zip(row, objects, strict=True):
            self._add(launch, made)
        words = np.concatenate(self._words)
        origin: Int32 = np.zeros(len(words), np.int32)
        return Program(
            accelerator=self._accelerator,
            segments=self._dram.segments,
            image=self._dram.image,
            inputs=(),
            outputs=(),
            steps=tuple(self._steps),
            words=words,
            origin=origin,
            origins=(_ORIGIN,),
            dram_bytes=self._dram.top,
        )

    def _add(self, launch: RowLaunch, made: RegionObject) -> None:
        name = f"launch{len(self._steps)}"
        inputs, outputs = self._tensors(name, launch)
        table, layout = list[Segment](), microops_of(self._accelerator)
        if made.tables and layout is not None:
            table = [self._dram.constant(f"{name}.microops", expand_tables(made.tables, layout))]
        bases = [tensor.address // unit for tensor, unit in zip([*inputs, *outputs], made.units, strict=True)]
        words, _ = made.link([*bases, *(each.address // table_unit(each) for each in table)], self._accelerator)
        begin = sum(map(len, self._words))
        self._words.append(self._once.arranged(words))
        read = tuple(tensor.name for tensor in [*inputs, *table])
        written = tuple(tensor.name for tensor in outputs)
        self._steps.append(Launch(name, "", (), begin, len(words), 0, read, written))

    def _tensors(self, name: str, launch: RowLaunch) -> tuple[Sequence[Segment], Sequence[Segment]]:
        """The operands and results of a launch in DRAM."""
        region = launch.region
        parameters = self._once.parameters(region)
        activations = {each: at for at, each in enumerate(kind_of(region).activations(region))}
        segments = [
            self._operand(name, parameter, self._made(activations, parameter[0], launch)) for parameter in parameters
        ]
        operands = len(parameters) - region.epilogue.planes
        self._results.append(segments[operands])
        return segments[:operands], segments[operands:]

    def _made(self, activations: Mapping[str, int], parameter: str, launch: RowLaunch) -> Segment | None:
        """The result of the row that a parameter is; None of all else."""
        place = activations.get(parameter)
        made = launch.reads[place] if place is not None and place < len(launch.reads) else None
        return None if made is None else self._results[made]

    def _operand(self, launch: str, parameter: _Parameter, made: Segment | None) -> Segment:
        """The tensor of a parameter: ``made``, if it is there and large enough, else one by itself."""
        name, shape, dtype = parameter
        if made is not None and math.prod(shape) * np.dtype(dtype).itemsize <= made.nbytes:
            return made
        return self._dram.place(f"{launch}.{name}", shape, dtype)
