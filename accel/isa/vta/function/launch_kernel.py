"""VTA's meaning as one TIR function: it runs a launch's instructions, in program order, on the machine's memories.

Copies are in :mod:`accel.isa.vta.function.copy_kernel`. Their bounds are checked before
(:mod:`accel.isa.vta.function.launch_table`); bounds of micro-ops here, because only here their values are known.
"""

# TVMScript's decorators are untyped
# mypy: disable-error-code="untyped-decorator"

import functools
from typing import Any

import pydantic
import tvm
from tvm.script import tirx as T  # noqa: N812  TVM's own name for it

from accel.isa.family import KernelSource
from accel.isa.kernels.kernel_library import host_cpu
from accel.isa.vta.function.copy_kernel import copy
from accel.isa.vta.function.dot_product import DotProduct, KernelShape, wrapping_add
from accel.isa.vta.function.functional_table import (
    ADD,
    BAD_DST,
    BAD_SRC,
    BAD_WGT,
    BEGIN,
    BOTH,
    CODE,
    COUNT,
    DST_IN,
    DST_INDEX,
    DST_LIMIT,
    DST_OUT,
    FINE,
    GEMM,
    IMM,
    INNER,
    MAX,
    MIN,
    MULTIPLY,
    NOTHING,
    OP,
    OUTER,
    RESET,
    SHIFT_RIGHT,
    SRC_IN,
    SRC_INDEX,
    SRC_LIMIT,
    SRC_OUT,
    STATUS,
    TABLE,
    UOP,
    USE_IMM,
    WGT_INDEX,
    WGT_LIMIT,
    WITH_SRC,
    Geometry,
)
from accel.isa.vta.function.gemm_kernel import CURSOR, PLAN, Local, gemm, rows_of, sums_words

_FAMILY = "vta"


_SHAPE: pydantic.TypeAdapter[KernelShape] = pydantic.TypeAdapter(KernelShape)


def shape_of(geometry: Geometry, dot: DotProduct | None = None) -> KernelShape:
    """Returns what the kernel is made for; ``dot`` overrides the choice of the host's instruction."""
    if dot is None:
        dot = _dot_of_host(geometry)
    return KernelShape(geometry, dot)


@functools.cache
def _dot_of_host(geometry: Geometry) -> DotProduct:
    return DotProduct.of_host(geometry, tvm.target.Target({"kind": "llvm", "mcpu": host_cpu()}))


def source_of(geometry: Geometry, dot: DotProduct | None = None) -> KernelSource:
    """Returns what the kernel is made of: ``launch(table, fields, dram8, dram32, uop, inp, wgt, acc, status)``.

    ``dot`` overrides the choice of the host's instruction. The kernel keeps no state, so one serves all machines of
    these shapes.
    """
    return source_of_text(_SHAPE.dump_json(shape_of(geometry, dot)).decode())


def source_of_text(text: str) -> KernelSource:
    """Returns what the kernel of a text is made of."""
    return KernelSource(_FAMILY, text, function_of)


def function_of(text: str) -> Any:
    """Returns the function of the ``text`` of a :func:`source_of`.

    Raises:
        pydantic.ValidationError: it is none.
    """
    return _launch(_SHAPE.validate_json(text))


def _operate(code: int, x: Any, y: Any) -> Any:
    """One elementwise operation on int32; the hardware takes five bits of a shift, and negative is left."""
    if code == MIN:
        return T.min(x, y)
    if code == MAX:
        return T.max(x, y)
    if code == ADD:
        return wrapping_add(x, y, 1)
    if code == MULTIPLY:
        return T.Cast("int32", T.Cast("uint32", x) * T.Cast("uint32", y))
    left = T.shift_left(x, T.bitwise_and(0 - y, 31))
    return T.Select(y < 0, left, T.shift_right(x, T.bitwise_and(y, 31)))


@T.inline
def _check(pc: Any, table: Any, uop: Any, status: Any) -> None:
    """Micro-op indices against the limits that the loops' steps leave."""
    for u in T.serial(table[pc, COUNT]):
        at: T.let = (table[pc, BEGIN] + u) * UOP
        if status[0] == FINE:
            status[1] = pc
            status[2] = table[pc, BEGIN] + u
            wgt: T.let = uop[at + WGT_INDEX]
            if wgt > table[pc, WGT_LIMIT]:
                status[0] = BAD_WGT
                status[3] = wgt
            src: T.let = uop[at + SRC_INDEX]
            if src > table[pc, SRC_LIMIT]:
                status[0] = BAD_SRC
                status[3] = src
            dst: T.let = uop[at + DST_INDEX]
            if dst > table[pc, DST_LIMIT]:
                status[0] = BAD_DST
                status[3] = dst


@T.inline
def _reset(pc: Any, table: Any, uop: Any, acc: Any, shape: Any) -> None:
    begin: T.let = table[pc, BEGIN]
    dst_out: T.let = table[pc, DST_OUT]
    dst_in: T.let = table[pc, DST_IN]
    for i, j, u in T.grid(table[pc, OUTER], table[pc, INNER], table[pc, COUNT]):
        dst: T.let = uop[(begin + u) * UOP + DST_INDEX] + i * dst_out + j * dst_in
        for e in T.vectorized(shape.acc_words):
            acc[dst * shape.acc_words + e] = 0


@T.inline
def _alu(pc: Any, table: Any, uop: Any, acc: Any, shape: Any, code: Any) -> None:
    begin: T.let = table[pc, BEGIN]
    dst_out: T.let = table[pc, DST_OUT]
    dst_in: T.let = table[pc, DST_IN]
    src_out: T.let = table[pc, SRC_OUT]
    src_in: T.let = table[pc, SRC_IN]
    mode: T.let = table[pc, USE_IMM]
    immediate: T.let = T.Cast("int32", table[pc, IMM])
    for i, j, u in T.grid(table[pc, OUTER], table[pc, INNER], table[pc, COUNT]):
        at: T.let = (begin + u) * UOP
        dst: T.let = (uop[at + DST_INDEX] + i * dst_out + j * dst_in) * shape.acc_words
        src: T.let = (uop[at + SRC_INDEX] + i * src_out + j * src_in) * shape.acc_words
        if mode != BOTH:
            first: T.let = T.Select(mode == WITH_SRC, src, dst)
            for e in T.vectorized(shape.acc_words):
                acc[dst + e] = _operate(code, acc[first + e], immediate)
        else:
            for e in T.vectorized(shape.acc_words):
                acc[dst + e] = _operate(code, acc[dst + e], acc[src + e])


@T.inline
def _compute(pc: Any, table: Any, uop: Any, inp: Any, wgt: Any, acc: Any, local: Any, shape: Any) -> None:
    if table[pc, OP] == GEMM:
        gemm(pc, table, uop, inp, wgt, acc, local, shape)
    elif table[pc, OP] == RESET:
        _reset(pc, table, uop, acc, shape)
    elif table[pc, CODE] == MIN:
        _alu(pc, table, uop, acc, shape, MIN)
    elif table[pc, CODE] == MAX:
        _alu(pc, table, uop, acc, shape, MAX)
    elif table[pc, CODE] == ADD:
        _alu(pc, table, uop, acc, shape, ADD)
    elif table[pc, CODE] == MULTIPLY:
        _alu(pc, table, uop, acc, shape, MULTIPLY)
    else:
        _alu(pc, table, uop, acc, shape, SHIFT_RIGHT)


def _launch(shape: KernelShape) -> Any:
    @T.prim_func(s_tir=True)
    def launch(  # noqa: PLR0913, PLR0917 - what a launch works on
        table_: T.handle,
        fields_: T.handle,
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
        fields = T.match_buffer(fields_, (2 * UOP,), "int64")
        dram8 = T.match_buffer(dram8_, (nbytes,), "int8")
        dram32 = T.match_buffer(dram32_, (nwords,), "int32")
        uop = T.match_buffer(uop_, (uop_words,), "int64")
        inp = T.match_buffer(inp_, (inp_words,), "int32")
        wgt = T.match_buffer(wgt_, (wgt_words,), "int32")
        acc = T.match_buffer(acc_, (acc_words,), "int32")
        status = T.match_buffer(status_, (STATUS,), "int64")
        plan = T.alloc_buffer((PLAN,), "int64")
        cursor = T.alloc_buffer((CURSOR,), "int64")
        into = T.alloc_buffer((rows_of(shape),), "int64")
        data = T.alloc_buffer((rows_of(shape),), "int64")
        sums = T.alloc_buffer((sums_words(shape),), "int32")
        corrections = T.alloc_buffer((shape.geometry.block_out,), "int32")
        pc = T.int64(0)
        while pc < count and status[0] == FINE:
            if table[pc, OP] >= GEMM:
                _check(pc, table, uop, status)
                if status[0] == FINE:
                    _compute(pc, table, uop, inp, wgt, acc, Local(plan, cursor, into, data, sums, corrections), shape)
            elif table[pc, OP] != NOTHING:
                copy(pc, table, (dram8, dram32), (uop, fields), inp, wgt, acc, shape)
            pc = pc + T.int64(1)

    return launch
