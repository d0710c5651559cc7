"""VTA's meaning as one TIR function: it runs a launch's instructions, in program order, on the machine's memories.

Operands of the matrix instruction are kept as the host's dot-product instructions take them: two input channels as
int16 in an int32, (depth, batch, pairs) for data and (depth, pairs, block) for weights. Bounds of copies are checked
before (:mod:`accel.isa.vta.bounds`); bounds of micro-ops here, because only here their values are known.
"""

# TVMScript's decorators are untyped
# mypy: disable-error-code="untyped-decorator"

import functools
from typing import Any

import tvm
from tvm.script import tirx as T  # noqa: N812  TVM's own name for it
from tvm.target import codegen

from accel.isa.vta.dot_product import DotProduct, Geometry

# columns of the instruction table
TABLE = 17
OP = 0
SRAM, DRAM, ROWS, COLUMNS, STRIDE, TOP, LEFT, HEIGHT, WIDTH = range(1, 10)
BEGIN, COUNT, OUTER, INNER, DST_OUT, DST_IN, SRC_OUT, SRC_IN, WGT_OUT, WGT_IN = range(1, 11)
DST_LIMIT, SRC_LIMIT, WGT_LIMIT, CODE, USE_IMM, IMM = range(11, TABLE)
# values of OP
NOTHING, LOAD_UOP, LOAD_INP, LOAD_WGT, LOAD_ACC, LOAD_ACC8, STORE, GEMM, RESET, ALU = range(10)
# values of USE_IMM: the second operand is src; it is IMM and the first is dst; it is IMM and the first is src
BOTH, WITH_DST, WITH_SRC = range(3)
# values of CODE
MIN, MAX, ADD, SHIFT_RIGHT, MULTIPLY = range(5)
# the status: which index was out of range, at which instruction and micro-op, its value
STATUS = 4
FINE, BAD_DST, BAD_SRC, BAD_WGT = range(4)


def build(geometry: Geometry, dot: DotProduct | None = None) -> Any:
    """The kernel, compiled for the host: ``launch(table, dram8, dram32, uop, inp, wgt, acc, status)``.

    ``dot`` overrides the choice of the host's instruction. The kernel keeps no state, so one serves all machines of
    these shapes.
    """
    cpu = str(codegen.llvm_get_system_cpu())
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
    return _compiled(geometry, dot or DotProduct.of_host(geometry, target), cpu)


@functools.cache
def _compiled(geometry: Geometry, dot: DotProduct, cpu: str) -> Any:
    """The kernel of one shape, once a process: what it is asked by is what it depends on."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
    return tvm.compile(tvm.IRModule({"launch": _launch(geometry, dot)}), target=target)["launch"]


def _field(word: Any, field: tuple[int, int]) -> Any:
    return T.Cast("int64", T.bitwise_and(T.shift_right(word, field[0]), (1 << field[1]) - 1))


def _vector(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _wrapping_add(a: Any, b: Any, lanes: int) -> Any:
    """TVM's signed addition promises the compiler that nothing overflows; the accumulator wraps."""
    unsigned = _vector("uint32", lanes)
    return T.Cast(_vector("int32", lanes), T.Cast(unsigned, a) + T.Cast(unsigned, b))


def _sum(terms: list[Any]) -> Any:
    """A balanced tree, so that the additions do not wait for each other."""
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)] + terms[len(terms) & ~1 :]
    return terms[0]


def _matrix_row(acc: Any, inp: Any, wgt: Any, bases: tuple[Any, Any, Any], geometry: Geometry, dot: DotProduct) -> Any:
    """``lanes`` outputs of one row: what is there plus the dot products over the block's input channels."""

    def lanes_at(memory: Any, base: Any) -> Any:
        return memory[T.Ramp(base, 1, dot.lanes)] if dot.lanes > 1 else memory[base]

    def splat(value: Any) -> Any:
        return T.Broadcast(value, dot.lanes) if dot.lanes > 1 else value

    terms = [
        dot.multiply(splat(inp[bases[1] + k]), lanes_at(wgt, bases[2] + k * geometry.block_out))
        for k in range(geometry.pairs)
    ]
    return _wrapping_add(lanes_at(acc, bases[0]), _sum(terms), dot.lanes)


def _operate(code: int, x: Any, y: Any) -> Any:
    """One elementwise operation on int32; the hardware takes five bits of a shift, and negative is left."""
    if code == MIN:
        return T.min(x, y)
    if code == MAX:
        return T.max(x, y)
    if code == ADD:
        return _wrapping_add(x, y, 1)
    if code == MULTIPLY:
        return T.Cast("int32", T.Cast("uint32", x) * T.Cast("uint32", y))
    left = T.shift_left(x, T.bitwise_and(0 - y, 31))
    return T.Select(y < 0, left, T.shift_right(x, T.bitwise_and(y, 31)))


def _pair(dram: Any, address: Any, p: Any, block: int) -> Any:
    """Channels 2p and 2p + 1 of the int8 vector at ``address``, as two int16 in one int32."""
    low = T.bitwise_and(T.Cast("int32", dram[address + 2 * p]), 0xFFFF)
    return T.bitwise_or(low, T.shift_left(T.Cast("int32", dram[address + 2 * p + 1]), 16)) if block > 1 else low


def _inp_word(dram: Any, element: Any, w: Any, geometry: Geometry) -> Any:
    row, p = w // geometry.pairs, w % geometry.pairs
    return _pair(dram, (element * geometry.batch + row) * geometry.block_in, p, geometry.block_in)


def _wgt_word(dram: Any, element: Any, w: Any, geometry: Geometry) -> Any:
    p, output = w // geometry.block_out, w % geometry.block_out
    return _pair(dram, (element * geometry.block_out + output) * geometry.block_in, p, geometry.block_in)


def _acc8_word(dram: Any, element: Any, w: Any, geometry: Geometry) -> Any:
    return T.Cast("int32", dram[element * geometry.acc_words + w])


@T.inline
def _check(pc: Any, table: Any, uop: Any, status: Any, geometry: Any) -> None:
    """Micro-op indices against the limits that the loops' steps leave."""
    for u in T.serial(table[pc, COUNT]):
        word = uop[table[pc, BEGIN] + u]
        if status[0] == FINE:
            status[1] = pc
            status[2] = table[pc, BEGIN] + u
            if _field(word, geometry.wgt) > table[pc, WGT_LIMIT]:
                status[0] = BAD_WGT
                status[3] = _field(word, geometry.wgt)
            if _field(word, geometry.src) > table[pc, SRC_LIMIT]:
                status[0] = BAD_SRC
                status[3] = _field(word, geometry.src)
            if _field(word, geometry.dst) > table[pc, DST_LIMIT]:
                status[0] = BAD_DST
                status[3] = _field(word, geometry.dst)


@T.inline
def _gemm(pc: Any, table: Any, uop: Any, inp: Any, wgt: Any, acc: Any, geometry: Any, dot: Any) -> None:
    for i, j, u in T.grid(table[pc, OUTER], table[pc, INNER], table[pc, COUNT]):
        word = uop[table[pc, BEGIN] + u]
        dst = _field(word, geometry.dst) + i * table[pc, DST_OUT] + j * table[pc, DST_IN]
        src = _field(word, geometry.src) + i * table[pc, SRC_OUT] + j * table[pc, SRC_IN]
        wgt_ = _field(word, geometry.wgt) + i * table[pc, WGT_OUT] + j * table[pc, WGT_IN]
        for b, v in T.grid(geometry.batch, geometry.block_out // dot.lanes):
            into = dst * geometry.acc_words + b * geometry.block_out + v * dot.lanes
            data = src * geometry.inp_words + b * geometry.pairs
            weights = wgt_ * geometry.wgt_words + v * dot.lanes
            if dot.lanes > 1:
                acc[T.Ramp(into, 1, dot.lanes)] = _matrix_row(acc, inp, wgt, (into, data, weights), geometry, dot)
            else:
                acc[into] = _matrix_row(acc, inp, wgt, (into, data, weights), geometry, dot)


@T.inline
def _reset(pc: Any, table: Any, uop: Any, acc: Any, geometry: Any) -> None:
    for i, j, u in T.grid(table[pc, OUTER], table[pc, INNER], table[pc, COUNT]):
        dst = _field(uop[table[pc, BEGIN] + u], geometry.dst) + i * table[pc, DST_OUT] + j * table[pc, DST_IN]
        for e in T.vectorized(geometry.acc_words):
            acc[dst * geometry.acc_words + e] = 0


@T.inline
def _alu(pc: Any, table: Any, uop: Any, acc: Any, geometry: Any, code: Any) -> None:
    for i, j, u in T.grid(table[pc, OUTER], table[pc, INNER], table[pc, COUNT]):
        word = uop[table[pc, BEGIN] + u]
        dst = (_field(word, geometry.dst) + i * table[pc, DST_OUT] + j * table[pc, DST_IN]) * geometry.acc_words
        src = (_field(word, geometry.src) + i * table[pc, SRC_OUT] + j * table[pc, SRC_IN]) * geometry.acc_words
        if table[pc, USE_IMM] != BOTH:
            first = T.Select(table[pc, USE_IMM] == WITH_SRC, src, dst)
            for e in T.vectorized(geometry.acc_words):
                acc[dst + e] = _operate(code, acc[first + e], T.Cast("int32", table[pc, IMM]))
        else:
            for e in T.vectorized(geometry.acc_words):
                acc[dst + e] = _operate(code, acc[dst + e], acc[src + e])


@T.inline
def _load(pc: Any, table: Any, memory: Any, words: Any, value: Any) -> None:
    """A padded copy; ``value(element, word)`` is a word of the element at a DRAM address counted in elements."""
    for y, x in T.grid(table[pc, HEIGHT], table[pc, WIDTH]):
        into = (table[pc, SRAM] + y * table[pc, WIDTH] + x) * words
        row = y - table[pc, TOP]
        column = x - table[pc, LEFT]
        if row >= 0 and row < table[pc, ROWS] and column >= 0 and column < table[pc, COLUMNS]:
            element = table[pc, DRAM] + row * table[pc, STRIDE] + column
            for w in T.serial(words):
                memory[into + w] = value(element, w)
        else:
            for w in T.serial(words):
                memory[into + w] = 0


@T.inline
def _store(pc: Any, table: Any, acc: Any, dram: Any, geometry: Any) -> None:
    for y, x in T.grid(table[pc, ROWS], table[pc, COLUMNS]):
        source = (table[pc, SRAM] + y * table[pc, COLUMNS] + x) * geometry.acc_words
        into = (table[pc, DRAM] + y * table[pc, STRIDE] + x) * geometry.acc_words
        for e in T.vectorized(geometry.acc_words):
            dram[into + e] = T.Cast("int8", acc[source + e])


@T.inline
def _copy(pc: Any, table: Any, dram: Any, uop: Any, inp: Any, wgt: Any, acc: Any, geometry: Any) -> None:
    if table[pc, OP] == LOAD_UOP:
        _load(pc, table, uop, 1, lambda element, _: dram[1][element])
    elif table[pc, OP] == LOAD_INP:
        _load(pc, table, inp, geometry.inp_words, lambda element, w: _inp_word(dram[0], element, w, geometry))
    elif table[pc, OP] == LOAD_WGT:
        _load(pc, table, wgt, geometry.wgt_words, lambda element, w: _wgt_word(dram[0], element, w, geometry))
    elif table[pc, OP] == LOAD_ACC:
        _load(pc, table, acc, geometry.acc_words, lambda element, w: dram[1][element * geometry.acc_words + w])
    elif table[pc, OP] == LOAD_ACC8:
        _load(pc, table, acc, geometry.acc_words, lambda element, w: _acc8_word(dram[0], element, w, geometry))
    else:
        _store(pc, table, acc, dram[0], geometry)


@T.inline
def _compute(pc: Any, table: Any, uop: Any, inp: Any, wgt: Any, acc: Any, geometry: Any, dot: Any) -> None:
    if table[pc, OP] == GEMM:
        _gemm(pc, table, uop, inp, wgt, acc, geometry, dot)
    elif table[pc, OP] == RESET:
        _reset(pc, table, uop, acc, geometry)
    elif table[pc, CODE] == MIN:
        _alu(pc, table, uop, acc, geometry, MIN)
    elif table[pc, CODE] == MAX:
        _alu(pc, table, uop, acc, geometry, MAX)
    elif table[pc, CODE] == ADD:
        _alu(pc, table, uop, acc, geometry, ADD)
    elif table[pc, CODE] == MULTIPLY:
        _alu(pc, table, uop, acc, geometry, MULTIPLY)
    else:
        _alu(pc, table, uop, acc, geometry, SHIFT_RIGHT)


def _launch(geometry: Geometry, dot: DotProduct) -> Any:
    @T.prim_func(s_tir=True)
    def launch(
        table_: T.handle,
        dram8_: T.handle,
        dram32_: T.handle,
        uop_: T.handle,
        inp_: T.handle,
        wgt_: T.handle,
        acc_: T.handle,
        status_: T.handle,
    ) -> None:
        # the DRAM is there twice, as bytes and as words, so the compiler must not take buffers for distinct
        T.func_attr({"global_symbol": "launch", "tirx.noalias": False})
        count, nbytes, nwords = T.int64(), T.int64(), T.int64()
        uop_words, inp_words, wgt_words, acc_words = T.int64(), T.int64(), T.int64(), T.int64()
        table = T.match_buffer(table_, (count, TABLE), "int64")
        dram8 = T.match_buffer(dram8_, (nbytes,), "int8")
        dram32 = T.match_buffer(dram32_, (nwords,), "int32")
        uop = T.match_buffer(uop_, (uop_words,), "int32")
        inp = T.match_buffer(inp_, (inp_words,), "int32")
        wgt = T.match_buffer(wgt_, (wgt_words,), "int32")
        acc = T.match_buffer(acc_, (acc_words,), "int32")
        status = T.match_buffer(status_, (STATUS,), "int64")
        pc = T.int64(0)
        while pc < count and status[0] == FINE:
            if table[pc, OP] >= GEMM:
                _check(pc, table, uop, status, geometry)
                if status[0] == FINE:
                    _compute(pc, table, uop, inp, wgt, acc, geometry, dot)
            elif table[pc, OP] != NOTHING:
                _copy(pc, table, (dram8, dram32), uop, inp, wgt, acc, geometry)
            pc = pc + T.int64(1)

    return launch
