"""VTA's loads and stores as TIR: DRAM's elements to those that the kernel computes with, and back.

Operands of the matrix instruction are kept as the host's dot-product instructions take them: two input channels as
int16 in an int32, (depth, batch, pairs) for data and (depth, pairs, block) for weights. Micro-ops are kept as their
indices, (depth, UOP), so that the loops that use them take no word apart.
"""

# TVMScript's decorators are untyped
# mypy: disable-error-code="untyped-decorator"

from collections.abc import Callable
from typing import Any

from tvm.script import tirx as T  # noqa: N812  TVM's own name for it

from accel.isa.vta.function.dot_product import KernelShape, splat, vector
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
)

_UNROLLED = 8
"""Parts of an element, at most, of which each has code of its own: more take the compiler too long."""
_SHUFFLED = 64
"""Words that the compiler puts into another order in registers."""


def _packed(dram: Any, address: Any, shape: KernelShape) -> Any:
    """The first channels of the int8 vector at ``address``, as many as there are, as one word."""
    channels = min(shape.dot.channels, shape.geometry.block_in)
    bits = 32 // shape.dot.channels
    word = T.Cast("int32", dram[address])
    if channels == shape.dot.channels == 1:
        return word
    for channel in reversed(range(channels)):
        part = T.bitwise_and(T.Cast("int32", dram[address + channel]), (1 << bits) - 1)
        word = part if channel == channels - 1 else T.bitwise_or(T.shift_left(word, bits), part)
    return word


def _inp_words(dram: Any, element: Any, row: Any, shape: KernelShape) -> Any:
    """A row of a data element: int8 in order, or made int16, are the words."""
    block, words = shape.geometry.block_in, shape.words
    at = (element * shape.geometry.batch + row) * block
    if block < shape.dot.channels or words == 1:
        value = _packed(dram[0], at, shape)
    elif shape.dot.channels == 2:
        value = T.reinterpret(f"int32x{words}", T.Cast(f"int16x{block}", dram[0][T.Ramp(at, 1, block)]))
    else:
        value = dram[1][T.Ramp((element * shape.geometry.batch + row) * words, 1, words)]
    return T.bitwise_xor(value, splat(T.int32(shape.dot.no_data), words)) if shape.dot.flipped else value


def _wgt_lanes(shape: KernelShape) -> int:
    """Words of a weight element that are made together: all outputs of a word, where DRAM's words are full."""
    return shape.geometry.block_out if shape.geometry.block_in % 4 == 0 else 1


def _wgt_words(dram: Any, element: Any, w: Any, shape: KernelShape) -> Any:
    block, outputs = shape.geometry.block_in, shape.geometry.block_out
    if _wgt_lanes(shape) == 1:
        p, output = w // outputs, w % outputs
        return _packed(dram[0], (element * outputs + output) * block + p * shape.dot.channels, shape)
    first, stride = element * (outputs * block // 4), block // 4

    def four(n: Any) -> Any:
        """The n-th four channels of all outputs."""
        if outputs == 1 or outputs * stride > _SHUFFLED:
            return dram[1][T.Ramp(first + n, stride, outputs)] if outputs > 1 else dram[1][first + n]
        return T.Shuffle([dram[1][T.Ramp(first, 1, outputs * stride)]], list(range(n, outputs * stride, stride)))

    if shape.dot.channels == 4:
        return four(w)

    def each(value: Any) -> Any:
        return splat(value, outputs)

    up = 16 - w % 2 * 16 if isinstance(w, int) else T.Cast("int32", 16 - w % 2 * 16)
    two = T.shift_left(four(w // 2), each(up))  # in the upper half
    low = T.bitwise_and(T.shift_right(T.shift_left(T.shift_right(two, each(16)), each(24)), each(24)), each(0xFFFF))
    return T.bitwise_or(low, T.shift_left(T.shift_right(two, each(24)), each(16)))


def _acc_words(dram: Any, element: Any, shape: KernelShape) -> Any:
    at = element * shape.acc_words
    return dram[T.Ramp(at, 1, shape.acc_words)] if shape.acc_words > 1 else dram[at]


def _acc8_words(dram: Any, element: Any, shape: KernelShape) -> Any:
    return T.Cast(vector("int32", shape.acc_words), _acc_words(dram, element, shape))


def _uop_index(dram: Any, fields: Any, element: Any, n: Any) -> Any:
    word = T.Cast("int64", dram[element])
    return T.bitwise_and(T.shift_right(word, fields[2 * n]), fields[2 * n + 1])


def _put(memory: Any, into: Any, words: int, value: Callable[[Any, int], Any], element: Any, lanes: int) -> None:
    """Store the ``words`` of an element; ``value(element, n)`` is the n-th ``lanes`` of them."""
    for n in range(words // lanes):
        at = into + n * lanes
        T.buffer_store(memory, value(element, n), [T.Ramp(at, 1, lanes) if lanes > 1 else at])


def _nth(value: Callable[[Any, Any], Any], n: Any) -> Callable[[Any, int], Any]:
    """The ``n``-th part of an element as all of it."""
    return lambda element, _: value(element, n)


@T.inline
def _load(pc: Any, table: Any, memory: Any, words: Any, lanes: Any, value: Any, zero: Any = 0) -> None:
    """A padded copy; ``value(element, n)`` is the n-th ``lanes`` words of the element at a DRAM address in elements.

    A word of padding is ``zero``.
    """
    # read once: the compiler must think that each store to the memory changes the table
    sram: T.let = table[pc, SRAM]
    dram: T.let = table[pc, DRAM]
    columns: T.let = table[pc, COLUMNS]
    stride: T.let = table[pc, STRIDE]
    width: T.let = table[pc, WIDTH]
    height: T.let = table[pc, HEIGHT]
    rows: T.let = table[pc, ROWS]
    first: T.let = sram + table[pc, TOP] * width + table[pc, LEFT]
    if height * width > rows * columns:
        for e in T.serial(height * width):
            for w in T.vectorized(words):
                memory[(sram + e) * words + w] = zero
    for y, x in T.grid(rows, columns):
        into: T.let = (first + y * width + x) * words
        if words // lanes <= _UNROLLED:
            _put(memory, into, words, value, dram + y * stride + x, lanes)
        else:
            for n in T.serial(words // lanes):
                _put(
                    memory,
                    into + n * lanes,
                    lanes,
                    _nth(value, n),
                    dram + y * stride + x,
                    lanes,
                )


@T.inline
def _store(pc: Any, table: Any, acc: Any, dram: Any, shape: Any) -> None:
    for y, x in T.grid(table[pc, ROWS], table[pc, COLUMNS]):
        source: T.let = (table[pc, SRAM] + y * table[pc, COLUMNS] + x) * shape.acc_words
        into: T.let = (table[pc, DRAM] + y * table[pc, STRIDE] + x) * shape.acc_words
        for e in T.vectorized(shape.acc_words):
            dram[into + e] = T.Cast("int8", acc[source + e])


@T.inline
def copy(pc: Any, table: Any, dram: Any, uop: Any, inp: Any, wgt: Any, acc: Any, shape: Any) -> None:
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
            shape.inp_words,
            shape.words,
            lambda element, n: _inp_words(dram, element, n, shape),
            T.int32(shape.dot.no_data),
        )
    elif table[pc, OP] == LOAD_WGT:
        _load(
            pc,
            table,
            wgt,
            shape.wgt_words,
            _wgt_lanes(shape),
            lambda element, n: _wgt_words(dram, element, n, shape),
        )
    elif table[pc, OP] == LOAD_ACC:
        _load(
            pc,
            table,
            acc,
            shape.acc_words,
            shape.acc_words,
            lambda element, _: _acc_words(dram[1], element, shape),
        )
    elif table[pc, OP] == LOAD_ACC8:
        _load(
            pc,
            table,
            acc,
            shape.acc_words,
            shape.acc_words,
            lambda element, _: _acc8_words(dram[0], element, shape),
        )
    else:
        _store(pc, table, acc, dram[0], shape)
