"""VTA's matrix instruction as TIR: products of matrices, in blocks of sums that stay in the host's registers.

An instruction adds inp[src] x wgt[wgt] to acc[dst] in each step of its two loops and its micro-ops. It changes neither
data nor weights, and sums of int32 that wrap are the same in any order. So steps are taken in the order in which rows
of accumulators that meet the same weights, one after another, are summed side by side:

- a loop or a run of micro-ops that stays at one dst is a sum: its steps are the terms;
- one that moves dst and stays at the same weights is of rows. No two rows of a block have the same dst;
- what is neither is done step by step. In the worst case each step has one row and one term.
"""

# TVMScript's decorators are untyped
# mypy: disable-error-code="untyped-decorator"

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T  # noqa: N812  TVM's own name for it

from accel.isa.vta.function.dot_product import KernelShape, lanes_at, splat, wrapping_add, wrapping_subtract
from accel.isa.vta.function.functional_table import (
    BEGIN,
    COUNT,
    DST_INDEX,
    DST_OUT,
    OUTER,
    SRC_INDEX,
    SRC_OUT,
    UOP,
    WGT_INDEX,
    WGT_OUT,
)

_FEW = 5
"""So many rows take no longer one by one than as a block."""
_CHAINS = 4
"""Sums of one row that do not wait for each other."""
_GROUPS = 2
"""Groups of rows in a block."""
_UNROLLED = 8
"""Words of a row, at most, of which each has code of its own: more take the compiler too long."""
_FAR = (1 << 62) - 1

# The plan of an instruction: of both loops extents and steps, the outer first; the extent of each for each of its uses;
# how far rows are apart; whether the loops are swapped.
_USES = 3
_AS_ROWS, _AS_TERMS, _AS_OTHER = range(_USES)
_EXTENT, _DST, _SRC, _WGT, _USE = range(0, 10, 2)
_APART, _SWAPPED, PLAN = range(_USE + 2 * _USES, _USE + 2 * _USES + 3)
# The cursor: the micro-op; how many from it on are rows, and how many are terms; rows that are left; and of the next
# row its place in the batch, its micro-op, and its steps of the loops; and whether all groups of rows of a block are
# steps of the inner loop.
CURSOR = 9
_MICROOP, _ROWS, _TERMS, _LEFT, _IN_BATCH, _AT_MICROOP, _AT_INNER, _AT_OUTER, _EVEN = range(CURSOR)


@dataclass(frozen=True)
class Local:
    """Buffers on the stack: plan and cursor; where rows of a block begin in acc and inp, their sums, corrections."""

    plan: Any
    cursor: Any
    into: Any
    data: Any
    sums: Any
    corrections: Any


def rows_of(shape: KernelShape) -> int:
    """Rows of a block."""
    return _GROUPS * shape.dot.rows


def sums_words(shape: KernelShape) -> int:
    """int32 words of ``Local.sums``."""
    return max(rows_of(shape), 2 * _CHAINS) * shape.dot.lanes


@dataclass(frozen=True)
class _Memories:
    uop: Any
    inp: Any
    wgt: Any
    acc: Any


@dataclass(frozen=True)
class _Loops:
    """The instruction's loops by what they are, (outer, inner): extents, 1 where a loop is not that, and steps."""

    plan: Any

    def _pair(self, at: int) -> tuple[Any, Any]:
        return self.plan[at], self.plan[at + 1]

    @property
    def rows(self) -> tuple[Any, Any]:
        return self._pair(_USE + 2 * _AS_ROWS)

    @property
    def terms(self) -> tuple[Any, Any]:
        return self._pair(_USE + 2 * _AS_TERMS)

    @property
    def others(self) -> tuple[Any, Any]:
        return self._pair(_USE + 2 * _AS_OTHER)

    @property
    def dst(self) -> tuple[Any, Any]:
        return self._pair(_DST)

    @property
    def src(self) -> tuple[Any, Any]:
        return self._pair(_SRC)

    @property
    def wgt(self) -> tuple[Any, Any]:
        return self._pair(_WGT)


@dataclass(frozen=True)
class _Terms:
    """Terms that rows share: two loops and micro-ops from ``microop`` on; words of data and weights of the first."""

    memories: _Memories
    loops: _Loops
    shape: KernelShape
    microop: Any
    count: Any
    src: Any
    wgt: Any

    @property
    def extents(self) -> tuple[Any, Any, Any]:
        return (*self.loops.terms, self.count)

    def data(self, outer: Any, inner: Any, n: Any) -> Any:
        """The word where the data of a term begins, for a row that begins at 0."""
        steps = outer * self.loops.src[0] + inner * self.loops.src[1]
        return (self.memories.uop[(self.microop + n) * UOP + SRC_INDEX] + self.src + steps) * self.shape.inp_words

    def weights(self, outer: Any, inner: Any, n: Any) -> Any:
        """The word where the weights of a term begin."""
        steps = outer * self.loops.wgt[0] + inner * self.loops.wgt[1]
        return (self.memories.uop[(self.microop + n) * UOP + WGT_INDEX] + self.wgt + steps) * self.shape.wgt_words

    def weights_at(self, first: Any, word: Any, v: Any) -> Any:
        """The weights of a term that begin at ``first``: of the ``v``-th outputs, those of a word of data."""
        lanes = self.shape.dot.lanes
        return lanes_at(self.memories.wgt, first + word * self.shape.geometry.block_out + v * lanes, lanes)


def _put(memory: Any, base: Any, value: Any, lanes: int) -> None:
    """Store ``lanes`` consecutive words."""
    T.buffer_store(memory, value, [T.Ramp(base, 1, lanes) if lanes > 1 else base])


def _each_word(shape: KernelShape) -> Any:
    """The loop over the words of a row of data."""
    return T.unroll(shape.words) if shape.words <= _UNROLLED else T.serial(shape.words)


def _multiplied(sums: Any, at: Any, x: Any, weights: Any, shape: KernelShape) -> Any:
    """``sums`` at a place, plus the word ``x`` of data times ``weights``."""
    lanes = shape.dot.lanes
    return shape.dot.accumulate(lanes_at(sums, at, lanes), splat(x, lanes), weights)


def _corrected(acc: Any, at: Any, corrections: Any, v: Any, shape: KernelShape) -> Any:
    """What is in the accumulators, less what flipped data adds to it too much."""
    lanes = shape.dot.lanes
    before = lanes_at(acc, at, lanes)
    return wrapping_subtract(before, lanes_at(corrections, v * lanes, lanes), lanes) if shape.dot.flipped else before


@T.inline
def _correct(terms: Any, local: Any, shape: Any) -> None:
    """What flipped data adds to each row too much, by output: it is the same for all."""
    for v in T.unroll(shape.geometry.block_out // shape.dot.lanes):
        _put(local.corrections, v * shape.dot.lanes, splat(0, shape.dot.lanes), shape.dot.lanes)
    for o, i, u in T.grid(*terms.extents):
        w: T.let = terms.weights(o, i, u)
        for p in _each_word(shape):
            for v in T.unroll(shape.geometry.block_out // shape.dot.lanes):
                _put(
                    local.corrections,
                    v * shape.dot.lanes,
                    _multiplied(
                        local.corrections,
                        v * shape.dot.lanes,
                        T.int32(shape.dot.no_data),
                        terms.weights_at(w, p, v),
                        shape,
                    ),
                    shape.dot.lanes,
                )


@T.inline
def _block(terms: Any, first: Any, rows: Any, data: Any, local: Any, shape: Any) -> None:
    """All terms of ``rows`` rows, noted from ``first`` on; ``data(r)`` is the word where the data of one begins."""
    for v in T.serial(shape.geometry.block_out // shape.dot.lanes):
        for r in T.unroll(rows):
            _put(
                local.sums,
                r * shape.dot.lanes,
                _corrected(
                    terms.memories.acc, local.into[first + r] + v * shape.dot.lanes, local.corrections, v, shape
                ),
                shape.dot.lanes,
            )
        for o, i, u in T.grid(*terms.extents):
            x: T.let = terms.data(o, i, u)
            w: T.let = terms.weights(o, i, u)
            for p in _each_word(shape):
                weights: T.let = terms.weights_at(w, p, v)
                for r in T.unroll(rows):
                    _put(
                        local.sums,
                        r * shape.dot.lanes,
                        _multiplied(
                            local.sums, r * shape.dot.lanes, terms.memories.inp[x + data(r) + p], weights, shape
                        ),
                        shape.dot.lanes,
                    )
        for r in T.unroll(rows):
            _put(
                terms.memories.acc,
                local.into[first + r] + v * shape.dot.lanes,
                lanes_at(local.sums, r * shape.dot.lanes, shape.dot.lanes),
                shape.dot.lanes,
            )


def _row_data(local: Local, r: Any, step: int, shape: KernelShape) -> Any:
    """The word where the data of row ``r`` begins, counted from its group's first.

    An address that each row had by itself would have to be loaded for each: there are not as many registers.
    """
    group = shape.dot.rows
    return local.data[r // group * group] + r % group * (step * shape.words)


@T.inline
def _blocks(terms: Any, local: Any, shape: Any) -> None:
    """All terms of the rows noted, of which the cursor has passed as many as there are."""
    groups: T.let = T.Select(local.cursor[_LEFT] > -shape.dot.rows, T.int64(_GROUPS), T.int64(1))
    if T.And(local.cursor[_EVEN] == 1, terms.loops.src[1] == 1):
        _block(terms, 0, rows_of(shape), lambda r: _row_data(local, r, 1, shape), local, shape)
    elif T.And(local.cursor[_EVEN] == 1, terms.loops.src[1] == 2):
        _block(terms, 0, rows_of(shape), lambda r: _row_data(local, r, 2, shape), local, shape)
    else:
        for group in T.serial(groups):
            first: T.let = group * shape.dot.rows
            _block(terms, first, shape.dot.rows, lambda r, first=first: local.data[first + r], local, shape)


def _row_result(acc: Any, at: Any, sums: Any, shape: KernelShape) -> Any:
    """The accumulators of one row, and its chains; of flipped data as many are the corrections."""
    lanes, result = shape.dot.lanes, lanes_at(acc, at, shape.dot.lanes)
    for chain in range(_CHAINS):
        result = wrapping_add(result, lanes_at(sums, chain * lanes, lanes), lanes)
        if shape.dot.flipped:
            result = wrapping_subtract(result, lanes_at(sums, (_CHAINS + chain) * lanes, lanes), lanes)
    return result


@T.inline
def _row(terms: Any, local: Any, shape: Any) -> None:
    """All terms of one row."""
    for v in T.serial(shape.geometry.block_out // shape.dot.lanes):
        for chain in T.unroll(2 * _CHAINS):
            _put(local.sums, chain * shape.dot.lanes, splat(0, shape.dot.lanes), shape.dot.lanes)
        for o, i, u in T.grid(*terms.extents):
            x: T.let = terms.data(o, i, u) + local.data[0]
            w: T.let = terms.weights(o, i, u)
            for p in _each_word(shape):
                weights: T.let = terms.weights_at(w, p, v)
                sums: T.let = p % _CHAINS * shape.dot.lanes
                _put(
                    local.sums,
                    sums,
                    _multiplied(local.sums, sums, terms.memories.inp[x + p], weights, shape),
                    shape.dot.lanes,
                )
                if shape.dot.flipped:
                    more: T.let = sums + _CHAINS * shape.dot.lanes
                    _put(
                        local.sums,
                        more,
                        _multiplied(local.sums, more, T.int32(shape.dot.no_data), weights, shape),
                        shape.dot.lanes,
                    )
        _put(
            terms.memories.acc,
            local.into[0] + v * shape.dot.lanes,
            _row_result(terms.memories.acc, local.into[0] + v * shape.dot.lanes, local.sums, shape),
            shape.dot.lanes,
        )


@T.inline
def _next_inner(terms: Any, steps: Any, local: Any) -> None:
    """Take steps of the inner loop, which reach its end at most."""
    local.cursor[_AT_INNER] = local.cursor[_AT_INNER] + steps
    if local.cursor[_AT_INNER] == terms.loops.rows[1]:
        local.cursor[_AT_INNER] = 0
        local.cursor[_AT_OUTER] = local.cursor[_AT_OUTER] + 1


@T.inline
def _note_row(r: Any, terms: Any, dst: Any, local: Any, shape: Any) -> None:
    """Note where the row at the cursor begins, and go on; behind the last comes the last again."""
    at: T.let = (terms.microop + local.cursor[_AT_MICROOP]) * UOP
    o: T.let = local.cursor[_AT_OUTER]
    i: T.let = local.cursor[_AT_INNER]
    b: T.let = local.cursor[_IN_BATCH]
    local.into[r] = (
        terms.memories.uop[at + DST_INDEX] + dst + o * terms.loops.dst[0] + i * terms.loops.dst[1]
    ) * shape.acc_words + b * shape.geometry.block_out
    local.data[r] = (
        terms.memories.uop[at + SRC_INDEX]
        - terms.memories.uop[terms.microop * UOP + SRC_INDEX]
        + o * terms.loops.src[0]
        + i * terms.loops.src[1]
    ) * shape.inp_words + b * shape.words
    if local.cursor[_LEFT] > 1:
        local.cursor[_IN_BATCH] = b + 1
        if b + 1 == shape.geometry.batch:
            local.cursor[_IN_BATCH] = 0
            local.cursor[_AT_MICROOP] = local.cursor[_AT_MICROOP] + 1
            if local.cursor[_AT_MICROOP] == local.cursor[_ROWS]:
                local.cursor[_AT_MICROOP] = 0
                _next_inner(terms, 1, local)
    local.cursor[_LEFT] = local.cursor[_LEFT] - 1


@T.inline
def _note_rows(terms: Any, dst: Any, local: Any, shape: Any) -> None:
    """Note where the rows of a block begin, and whether all groups are steps of the inner loop."""
    local.cursor[_EVEN] = 1
    for group in T.serial(_GROUPS):
        if shape.geometry.batch == 1 and T.And(
            local.cursor[_ROWS] == 1, local.cursor[_AT_INNER] + shape.dot.rows <= terms.loops.rows[1]
        ):
            steps: T.let = local.cursor[_AT_INNER]
            into: T.let = (
                terms.memories.uop[terms.microop * UOP + DST_INDEX]
                + dst
                + local.cursor[_AT_OUTER] * terms.loops.dst[0]
                + steps * terms.loops.dst[1]
            ) * shape.acc_words
            data: T.let = (local.cursor[_AT_OUTER] * terms.loops.src[0] + steps * terms.loops.src[1]) * shape.inp_words
            for r in T.unroll(shape.dot.rows):
                local.into[group * shape.dot.rows + r] = into + r * (terms.loops.dst[1] * shape.acc_words)
                local.data[group * shape.dot.rows + r] = data + r * (terms.loops.src[1] * shape.inp_words)
            local.cursor[_LEFT] = local.cursor[_LEFT] - shape.dot.rows
            if local.cursor[_LEFT] > 0:
                _next_inner(terms, shape.dot.rows, local)
            else:
                local.cursor[_AT_INNER] = steps + (shape.dot.rows - 1)
        else:
            local.cursor[_EVEN] = 0
            for r in T.serial(shape.dot.rows):
                _note_row(group * shape.dot.rows + r, terms, dst, local, shape)


@T.inline
def _product(terms: Any, dst: Any, local: Any, shape: Any) -> None:
    """All terms of all rows; ``dst`` is what is added to the index of each row."""
    local.cursor[_LEFT] = local.cursor[_ROWS] * terms.loops.rows[0] * terms.loops.rows[1] * shape.geometry.batch
    for n in T.unroll(_IN_BATCH, CURSOR):
        local.cursor[n] = 0
    if shape.dot.flipped and local.cursor[_LEFT] > _FEW:
        _correct(terms, local, shape)
    while local.cursor[_LEFT] > _FEW:
        _note_rows(terms, dst, local, shape)
        _blocks(terms, local, shape)
    while local.cursor[_LEFT] > 0:
        _note_row(0, terms, dst, local, shape)
        _row(terms, local, shape)


def _row_follows(uop: Any, at: Any, rows: Any, apart: Any) -> Any:
    """Whether the micro-op ``rows`` behind the one at ``at`` meets its weights, further on, at less than ``apart``."""
    last = at + rows * UOP
    dst, before, first = (uop[place + DST_INDEX] for place in (last, last - UOP, at))
    increases = T.And(dst > before, dst - first < apart)
    return T.And(uop[last + WGT_INDEX] == uop[at + WGT_INDEX], increases)


@T.inline
def _run(begin: Any, count: Any, memories: Any, local: Any) -> None:
    """Count the micro-ops from the one at the cursor on that are rows, or else those that are terms."""
    at: T.let = (begin + local.cursor[_MICROOP]) * UOP
    left: T.let = count - local.cursor[_MICROOP]
    local.cursor[_ROWS] = 1
    local.cursor[_TERMS] = 1
    while T.if_then_else(
        local.cursor[_ROWS] < left,
        _row_follows(memories.uop, at, local.cursor[_ROWS], local.plan[_APART]),
        T.bool(False),
    ):
        local.cursor[_ROWS] = local.cursor[_ROWS] + 1
    if local.cursor[_ROWS] == 1:
        while T.if_then_else(
            local.cursor[_TERMS] < left,
            memories.uop[at + local.cursor[_TERMS] * UOP + DST_INDEX] == memories.uop[at + DST_INDEX],
            T.bool(False),
        ):
            local.cursor[_TERMS] = local.cursor[_TERMS] + 1


@T.inline
def _products(begin: Any, count: Any, memories: Any, loops: Any, local: Any, shape: Any) -> None:
    for o, i in T.grid(*loops.others):
        local.cursor[_MICROOP] = 0
        while local.cursor[_MICROOP] < count:
            _run(begin, count, memories, local)
            microop: T.let = begin + local.cursor[_MICROOP]
            terms: T.let = local.cursor[_TERMS]
            src: T.let = o * loops.src[0] + i * loops.src[1]
            wgt: T.let = o * loops.wgt[0] + i * loops.wgt[1]
            _product(
                _Terms(memories, loops, shape, microop, terms, src, wgt),
                o * loops.dst[0] + i * loops.dst[1],
                local,
                shape,
            )
            local.cursor[_MICROOP] = local.cursor[_MICROOP] + T.max(local.cursor[_ROWS], local.cursor[_TERMS])


def _is_rows(table: Any, pc: Any, side: int, shape: KernelShape) -> Any:
    """Whether a loop of the instruction, outer 0 or inner 1, steps through a group of rows and stays at its weights."""
    long = table[pc, OUTER + side] >= shape.dot.rows
    return T.And(long, T.And(table[pc, DST_OUT + side] > 0, table[pc, WGT_OUT + side] == 0))


def _is_apart(plan: Any, side: Any) -> Any:
    """Whether no two steps of the loop, nor of it and the other where that is of rows, have the same dst."""
    other = 1 - side
    over = plan[_EXTENT + side] * plan[_DST + side] <= plan[_DST + other]
    under = plan[_EXTENT + other] * plan[_DST + other] <= plan[_DST + side]
    alone = plan[_USE + 2 * _AS_ROWS + other] == 1
    return T.And(plan[_DST + side] > 0, T.Or(alone, T.Or(over, under)))


@T.inline
def _plan(pc: Any, table: Any, plan: Any, shape: Any) -> None:
    """Note of both loops their extents and steps, and what each is: rows, terms, or neither."""
    plan[_SWAPPED] = 0  # which loop is the inner one does not matter: let it be one of rows
    if T.And(_is_rows(table, pc, 0, shape), T.Not(_is_rows(table, pc, 1, shape))):
        plan[_SWAPPED] = 1
    for side in T.unroll(2):
        column: T.let = T.bitwise_xor(plan[_SWAPPED], T.int64(side))
        plan[_EXTENT + side] = table[pc, OUTER + column]
        plan[_DST + side] = 0
        if plan[_EXTENT + side] > 1:  # else nobody takes the step
            plan[_DST + side] = table[pc, DST_OUT + column]
        plan[_SRC + side] = table[pc, SRC_OUT + column]
        plan[_WGT + side] = table[pc, WGT_OUT + column]
        for use in T.unroll(_USES):
            plan[_USE + 2 * use + side] = 1
    plan[_APART] = _FAR
    for nth in T.unroll(2):
        nearer: T.let = 1 - nth
        if T.And(_is_apart(plan, nearer), plan[_WGT + nearer] == 0):
            plan[_USE + 2 * _AS_ROWS + nearer] = plan[_EXTENT + nearer]
            plan[_APART] = T.min(plan[_APART], plan[_DST + nearer])
        elif plan[_DST + nearer] == 0:
            plan[_USE + 2 * _AS_TERMS + nearer] = plan[_EXTENT + nearer]
        else:
            plan[_USE + 2 * _AS_OTHER + nearer] = plan[_EXTENT + nearer]


@T.inline
def gemm(pc: Any, table: Any, uop: Any, inp: Any, wgt: Any, acc: Any, local: Any, shape: Any) -> None:
    """The matrix instruction of row ``pc``, whose indices have been checked."""
    # read once: the compiler must think that each store to acc changes the table
    begin: T.let = table[pc, BEGIN]
    count: T.let = table[pc, COUNT]
    _plan(pc, table, local.plan, shape)
    _products(begin, count, _Memories(uop, inp, wgt, acc), _Loops(local.plan), local, shape)
