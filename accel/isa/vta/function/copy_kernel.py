"""VTA's loads and stores as TIR: DRAM's elements to those that the kernel computes with, and back.

Operands of the matrix instruction are kept as the host's dot-product instructions take them: two input channels as
int16 in an int32, (depth, batch, pairs) for data and (depth, pairs, block) for weights. Micro-ops are kept as their
indices, (depth, UOP), so that the loops that use them take no word apart.
"""

# TVMScript's decorators are untyped
# mypy: disable-error-code="untyped-decorator"

from typing import Any

from tvm.script import tirx as T  # noqa: N812  TVM's own name for it

from accel.isa.vta.function.dot_product import vector
from accel.isa.vta.function.functional_table import (
    COLUMNS,
    DRAM,
    HEIGHT,
    LEFT,
    LOAD_ACC,
    LOAD_ACC8,
    LOAD_INP,
    LOAD_UOP,
    LOAD_WGT,
    OP,
    ROWS,
    SRAM,
    STRIDE,
    TOP,
    UOP,
    WIDTH,
    Geometry,
)


def _pair(dram: Any, address: Any, p: Any, block: int) -> Any:
    """Channels 2p and 2p + 1 of the int8 vector at ``address``, as two int16 in one int32."""
    low = T.bitwise_and(T.Cast("int32", dram[address + 2 * p]), 0xFFFF)
    return T.bitwise_or(low, T.shift_left(T.Cast("int32", dram[address + 2 * p + 1]), 16)) if block > 1 else low


def _inp_words(dram: Any, element: Any, row: Any, geometry: Geometry) -> Any:
    """A row of a data element: int8 in order, made int16, are the pairs."""
    block = geometry.block_in
    at = (element * geometry.batch + row) * block
    if geometry.pairs == 1:
        return _pair(dram[0], at, 0, block)
    return T.reinterpret(f"int32x{geometry.pairs}", T.Cast(f"int16x{block}", dram[0][T.Ramp(at, 1, block)]))


def _wgt_lanes(geometry: Geometry) -> int:
    """Words of a weight element that are made together: all outputs of one pair, where DRAM's words hold two pairs."""
    return geometry.block_out if geometry.block_in % 4 == 0 else 1


def _wgt_words(dram: Any, element: Any, w: Any, geometry: Geometry) -> Any:
    block, outputs = geometry.block_in, geometry.block_out
    if _wgt_lanes(geometry) == 1:
        p, output = w // outputs, w % outputs
        return _pair(dram[0], (element * outputs + output) * block, p, block)
    at = element * (outputs * block // 4) + w // 2
    four = dram[1][T.Ramp(at, block // 4, outputs)] if outputs > 1 else dram[1][at]

    def splat(value: Any) -> Any:
        return T.Broadcast(value, outputs) if outputs > 1 else value

    two = T.shift_left(four, splat(T.Cast("int32", 16 - w % 2 * 16)))  # in the upper half
    low = T.bitwise_and(T.shift_right(T.shift_left(T.shift_right(two, splat(16)), splat(24)), splat(24)), splat(0xFFFF))
    return T.bitwise_or(low, T.shift_left(T.shift_right(two, splat(24)), splat(16)))


def _acc_words(dram: Any, element: Any, geometry: Geometry) -> Any:
    at = element * geometry.acc_words
    return dram[T.Ramp(at, 1, geometry.acc_words)] if geometry.acc_words > 1 else dram[at]


def _acc8_words(dram: Any, element: Any, geometry: Geometry) -> Any:
    return T.Cast(vector("int32", geometry.acc_words), _acc_words(dram, element, geometry))


def _uop_index(dram: Any, fields: Any, element: Any, n: Any) -> Any:
    word = T.Cast("int64", dram[element])
    return T.bitwise_and(T.shift_right(word, fields[2 * n]), fields[2 * n + 1])


@T.inline
def _load(pc: Any, table: Any, memory: Any, words: Any, lanes: Any, value: Any) -> None:
    """A padded copy; ``value(element, n)`` is the n-th ``lanes`` words of the element at a DRAM address in elements."""
    for y, x in T.grid(table[pc, HEIGHT], table[pc, WIDTH]):
        into: T.let = (table[pc, SRAM] + y * table[pc, WIDTH] + x) * words
        row: T.let = y - table[pc, TOP]
        column: T.let = x - table[pc, LEFT]
        if row >= 0 and row < table[pc, ROWS] and column >= 0 and column < table[pc, COLUMNS]:
            element: T.let = table[pc, DRAM] + row * table[pc, STRIDE] + column
            for n in T.serial(words // lanes):
                if lanes > 1:
                    memory[T.Ramp(into + n * lanes, 1, lanes)] = value(element, n)
                else:
                    memory[into + n] = value(element, n)
        else:
            for w in T.vectorized(words):
                memory[into + w] = 0


@T.inline
def _store(pc: Any, table: Any, acc: Any, dram: Any, geometry: Any) -> None:
    for y, x in T.grid(table[pc, ROWS], table[pc, COLUMNS]):
        source: T.let = (table[pc, SRAM] + y * table[pc, COLUMNS] + x) * geometry.acc_words
        into: T.let = (table[pc, DRAM] + y * table[pc, STRIDE] + x) * geometry.acc_words
        for e in T.vectorized(geometry.acc_words):
            dram[into + e] = T.Cast("int8", acc[source + e])


@T.inline
def copy(pc: Any, table: Any, dram: Any, uop: Any, inp: Any, wgt: Any, acc: Any, geometry: Any) -> None:
    """The load or store of row ``pc``.

    ``dram`` is the memory as bytes and as 32-bit words, ``uop`` the indices of micro-ops and the fields they come from.
    """
    if table[pc, OP] == LOAD_UOP:
        _load(pc, table, uop[0], UOP, 1, lambda element, n: _uop_index(dram[1], uop[1], element, n))
    elif table[pc, OP] == LOAD_INP:
        _load(
            pc,
            table,
            inp,
            geometry.inp_words,
            geometry.pairs,
            lambda element, n: _inp_words(dram, element, n, geometry),
        )
    elif table[pc, OP] == LOAD_WGT:
        _load(
            pc,
            table,
            wgt,
            geometry.wgt_words,
            _wgt_lanes(geometry),
            lambda element, n: _wgt_words(dram, element, n, geometry),
        )
    elif table[pc, OP] == LOAD_ACC:
        _load(
            pc,
            table,
            acc,
            geometry.acc_words,
            geometry.acc_words,
            lambda element, _: _acc_words(dram[1], element, geometry),
        )
    elif table[pc, OP] == LOAD_ACC8:
        _load(
            pc,
            table,
            acc,
            geometry.acc_words,
            geometry.acc_words,
            lambda element, _: _acc8_words(dram[0], element, geometry),
        )
    else:
        _store(pc, table, acc, dram[0], geometry)
