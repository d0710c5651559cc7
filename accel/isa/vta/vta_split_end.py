"""The end of a launch in parts: what its last tile makes is stored while the rest of the tile is still worked on.

A launch that runs on into one which reads that result at once would wait until all of the tile has passed the ALU, and
then has been stored. In parts, each of which passes the ALU and is stored by itself, it waits for the first of them.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from accel.accelerator.field_bits import put_field
from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded, decode
from accel.isa.family import Boxes
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.function import functional_table as f
from accel.isa.vta.function.functional_table import microop_places
from accel.isa.vta.function.launch_table import launch_table
from accel.isa.vta.timing.vta_work import boxes_of
from accel.util.arrays import Int64, Words

_COMPUTING = (f.LOAD_UOP, f.LOAD_ACC, f.LOAD_ACC8, f.GEMM, f.RESET, f.ALU)
_PARTS = 3
_LEAST = 24  # elements of a part: it takes an instruction's start for each step of the ALU


@dataclass(frozen=True)
class _Part:
    """Elements ``[begin, begin + size)`` of the results' memory, and the words (words_each,) that store them."""

    begin: int
    size: int
    store: Words


@dataclass(frozen=True)
class SplitLaunch:
    """A launch, its micro-ops, some more than it loads, and the place (n,) where each instruction stood."""

    decoded: Decoded
    microops: Int64
    order: Int64


def with_split_end(launch: Decoded, microops: Int64, following: Decoded | None) -> SplitLaunch:
    """Returns a launch that stores its last tile in parts if the ``following`` one loads of it first; else as it is."""
    whole = SplitLaunch(launch, microops, np.arange(len(launch)))
    table = launch_table(launch)
    stores = _last_stores(table)
    if following is None or not len(stores) or not _reads_first(following, boxes_of(launch), stores):
        return whole
    steps = _steps(launch, table, microops, stores)
    parts = _parts(launch, table, stores)
    if not len(steps) or len(parts) == 1:
        return whole
    try:
        return _split(launch, microops, steps, stores, parts)
    except ValueError:  # a field that has too few bits
        return whole


def _last_stores(table: Int64) -> Int64:
    """The stores at the end of a launch, whose elements lie behind each other's; none where they do not."""
    rows = np.flatnonzero(table[:, f.OP] != f.NOTHING)
    last = int(np.flatnonzero(table[rows, f.OP] != f.STORE).max(initial=-1)) + 1
    stores = rows[last:]
    ends = table[stores, f.SRAM] + table[stores, f.ROWS] * table[stores, f.COLUMNS]
    return stores if (ends[:-1] == table[stores[1:], f.SRAM]).all() else stores[:0]


def _reads_first(launch: Decoded, boxes: Boxes, stores: Int64) -> bool:
    """Whether a launch loads of what others' ``stores`` wrote before it tells that it has loaded anything."""
    sending = [each.tokens.push for each in launch.accelerator.instructions]
    told = np.zeros(len(launch), np.bool_)
    for kind, instruction in enumerate(launch.accelerator.instructions):
        if isinstance(instruction, Copy) and instruction.direction == "load":
            for name in sending[kind].values():
                told |= (launch.kind == kind) & (launch.column(name) != 0)
    first = int(np.flatnonzero(told).min(initial=len(launch)))
    loads, written = boxes_of(launch), boxes.of(np.isin(boxes.instruction, stores))
    loads = loads.of(~loads.write & (loads.instruction <= first))
    return loads.meet(written)


def _steps(launch: Decoded, table: Int64, microops: Int64, stores: Int64) -> Int64:
    """The last instructions of the ALU, if they pass over just what is stored, one element after the other."""
    vta, found = instructions_of(launch.accelerator), list[int]()
    computing = np.flatnonzero(np.isin(table[: stores[0], f.OP], _COMPUTING))
    (lsb, bits), (src_lsb, src_bits), _ = microop_places(launch.accelerator)
    begin, size = int(table[stores[0], f.SRAM]), int((table[stores, f.ROWS] * table[stores, f.COLUMNS]).sum())
    unit = launch.accelerator.instructions[launch.kind[stores[0]]].unit
    tells = vta.alu.instruction.tokens.push.get(unit)
    pops, pushes = (getattr(vta.alu.instruction.tokens, way).values() for way in ("pop", "push"))
    for row in computing[::-1].tolist():
        entry = table[row]
        word = int(microops[entry[f.BEGIN]]) if entry[f.OP] == f.ALU else 0
        flat = entry[f.OP] == f.ALU and entry[f.USE_IMM] != f.BOTH and entry[f.COUNT] == 1 and entry[f.DST_IN] == 1
        flat = flat and entry[f.OUTER] == 1 and entry[f.INNER] == size and (word >> lsb) & ((1 << bits) - 1) == begin
        if entry[f.USE_IMM] == f.WITH_SRC:
            flat = flat and entry[f.SRC_IN] == 1 and (word >> src_lsb) & ((1 << src_bits) - 1) == begin
        tokens = sum(int(launch.column(name)[row]) for name in (*pops, *pushes))
        told = int(launch.column(tells)[row]) == 1 and tokens == 1
        if not flat or not (tokens == 0 if found else told):
            break
        found.append(row)
    return np.array(found[::-1], np.int64)


def _parts(launch: Decoded, table: Int64, stores: Int64) -> list[_Part]:
    """What each of the stores moves; of one store its rows, or the elements of its row, in a few parts."""
    words = launch.words
    if len(stores) > 1:
        sizes = (table[stores, f.ROWS] * table[stores, f.COLUMNS]).tolist()
        begins = table[stores, f.SRAM].tolist()
        return [_Part(*each) for each in zip(begins, sizes, words[stores], strict=True)]
    store = int(stores[0])
    copy = launch.accelerator.instructions[launch.kind[store]]
    assert isinstance(copy, Copy)
    begin, dram, rows, columns, stride = table[store, [f.SRAM, f.DRAM, f.ROWS, f.COLUMNS, f.STRIDE]].tolist()
    by_row, fields = rows > 1, copy.copy_fields
    count, each, step = (rows, columns, stride) if by_row else (columns, 1, 1)
    number = max(min(_PARTS, count, rows * columns // _LEAST), 1)
    edges = (np.arange(number + 1) * count // number).tolist()
    found = []
    for low, high in pairwise(edges):
        word = words[store : store + 1].copy()
        size = fields.rows if by_row else fields.columns
        values = (fields.sram, begin + low * each), (fields.dram, dram + low * step), (size, high - low)
        for name, value in values:
            assert name is not None
            put_field(word, np.array([0]), launch.accelerator.field(copy, name), value)
        found.append(_Part(begin + low * each, (high - low) * each, word[0]))
    return found


def _split(launch: Decoded, microops: Int64, steps: Int64, stores: Int64, parts: list[_Part]) -> SplitLaunch:
    """The launch with its last steps and stores once for each part.

    The last step of each part tells the store of it, and the last store what the last one told.
    """
    accelerator = launch.accelerator
    alu, store = instructions_of(accelerator).alu.instruction, accelerator.instructions[launch.kind[stores[0]]]
    inner, table = alu.loops[-1], alu.microops
    assert table is not None
    count, begin, end = (accelerator.field(alu, name) for name in (inner.extent, table.begin, table.end))
    (lsb, _), (src_lsb, _), _ = microop_places(accelerator)
    places = launch_table(launch)
    first, added = int(places[stores[0], f.SRAM]), list[int]()
    words, order = list[Words](), list[int]()
    for number, part in enumerate(parts):
        some = launch.words[steps].copy()
        for row, step in enumerate(steps.tolist()):
            by = (part.begin - first) * ((1 << lsb) + ((1 << src_lsb) if places[step, f.USE_IMM] == f.WITH_SRC else 0))
            own = np.array([row])
            put_field(some, own, count, part.size)
            put_field(some, own, begin, len(microops) + len(added))
            put_field(some, own, end, len(microops) + len(added) + 1)
            added.append(int(microops[places[step, f.BEGIN]]) + by)
        one = part.store[None].copy()
        source = int(stores[min(number, len(stores) - 1)])
        for name in store.tokens.pop.values():
            put_field(one, np.array([0]), accelerator.field(store, name), int(launch.column(name)[stores[0]]))
        for name in store.tokens.push.values():
            sent = int(launch.column(name)[stores[-1]]) if number == len(parts) - 1 else 0
            put_field(one, np.array([0]), accelerator.field(store, name), sent)
        words += [some, one]
        order += [*steps.tolist(), source]
    kept = np.flatnonzero(~np.isin(np.arange(len(launch)), [*steps.tolist(), *stores.tolist()]))
    at = int((kept < steps[0]).sum())
    whole = np.insert(launch.words[kept], at, np.concatenate(words), axis=0)
    decoded = replace(decode(accelerator, whole, launch.first), context=launch.context)
    return SplitLaunch(decoded, np.append(microops, added), np.insert(kept, at, order))
