"""A stream with its loops written out: what the loop unrollers send to the three controllers."""

from dataclasses import dataclass

import numpy as np

from accel.errors import Diagnosis, SimulationError
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream import conv_loop_shape as conv
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream import matmul_loop as matmul
from accel.isa.gemmini.stream.configuration_registers import sizes
from accel.isa.gemmini.stream.conv_loop import expand_conv
from accel.isa.gemmini.stream.loop_registers import emit, note_block_stride, set_register
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, SCALAR, VECTOR
from accel.util.arrays import Bools, Int64, Words

_FINE, _UNDEFINED, _MATMUL, _CONV = range(4)
_MOST = 1 << 25  # primitive instructions of one stream


@dataclass(frozen=True)
class ExpandedStream:
    """Primitive instructions.

    Attributes:
        words: (m, 3) int64: funct, rs1, rs2; no loops and none of their registers. Of a stream without loops they are
            the stream itself, and not to be written to.
        origin: (m,) the instruction of the stream that each comes from.
    """

    words: Int64
    origin: Int64


def loop_registers() -> Int64:
    """The loops' registers after power-on."""
    return np.zeros(at.LOOPS, np.int64)


@compiled
def _expand(
    words: Int64, loops: Int64, sizes: Int64, alternate: int, most: int, out: Int64, origin: Int64, fault: Int64
) -> int:
    """Count the primitive instructions, and write as many as ``out`` (m, 3) has room for.

    ``fault`` (3,) tells which instruction is at fault, in what way, and details of it.
    """
    count = 0
    shape = np.zeros(conv.SHAPE, np.int64)
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        before = count
        if rocc.LOOP_BOUNDS <= funct <= rocc.LOOP_STRIDES_DC or rocc.CONV_1 <= funct <= rocc.CONV_6:
            set_register(loops, funct, rs1, rs2)
        elif funct == rocc.LOOP_WS:
            fault[1], fault[2] = _MATMUL, matmul.matmul_fault(loops, rs2, sizes)
            if fault[2] == matmul.FINE:
                count = matmul.expand_matmul(out, count, loops, rs1, rs2, sizes, alternate)
        elif funct == rocc.LOOP_CONV:
            fault[1], fault[2] = _CONV, conv.conv_fault(shape, loops, rs1, rs2, sizes)
            if fault[2] == conv.FINE:
                conv.place_conv(shape, loops, rs1, sizes, alternate)
                count = expand_conv(out, count, shape, loops, sizes)
        elif 0 <= funct <= rocc.MVIN3 or funct in (rocc.COUNTER, rocc.FENCE):
            note_block_stride(loops, funct, rs1)
            count = emit(out, count, funct, rs1, rs2)
        else:
            fault[1], fault[2] = _UNDEFINED, 1
        if fault[2] != 0 or count > most:
            fault[0] = index
            return count
        for position in range(before, min(count, len(origin))):
            origin[position] = index
    return count


@compiled
def _all_primitive(words: Int64) -> bool:
    """Whether no instruction of ``words`` (n, 3) is a loop, a register of one, or undefined."""
    for index in range(len(words)):
        funct = words[index, 0]
        if not (0 <= funct < rocc.LOOP_WS or funct in (rocc.MVIN3, rocc.COUNTER, rocc.FENCE)):
            return False
    return True


@compiled
def _note_block_strides(words: Int64, loops: Int64) -> None:
    """Remember the block strides of the config_lds of primitive instructions ``words`` (n, 3)."""
    for index in range(len(words)):
        if words[index, 0] == rocc.CONFIG:
            note_block_stride(loops, words[index, 0], words[index, 1])


def has_no_loops(words: Int64) -> bool:
    """Returns whether ``words`` (n, 3) are all primitive, as those of programs that are compiled here."""
    return _all_primitive(words)


def is_of_loops(functs: Int64) -> Bools:
    """Returns which instructions of these functs (n,) are loops, or registers of them."""
    return np.asarray((functs >= rocc.LOOP_WS) & (functs <= rocc.CONV_6) & (functs != rocc.MVIN3))


def _refuse(words: Int64, fault: Int64, count: int) -> SimulationError:
    index, what, why = (int(value) for value in fault)
    kind: Diagnosis = "memory-range"
    if count > _MOST:
        kind, detail = "work-limit", f"the loops are more than {_MOST} instructions together"
    elif what == _UNDEFINED:
        kind, detail = "undefined-opcode", f"funct {int(words[index, 0])} is undefined"
    elif what == _MATMUL and why == matmul.BAD_PADDING:
        kind, detail = "padding", "a tile would be all padding"
    elif what == _MATMUL:
        detail = "its tiles take more than half of the scratchpad or of the accumulator"
    elif why == conv.BAD_DILATION:
        kind, detail = "field-range", "a dilated input has stride 1"
    elif why == conv.NO_DILATION:
        kind, detail = "field-range", "the kernel's dilation is 0; it is 1 at least"
    elif why == conv.EMPTY:
        kind, detail = "padding", "its input has less than no rows or columns"
    else:
        detail = "its tensors take more than half of the scratchpad or of the accumulator"
    return SimulationError.at_instruction(index, kind, detail)


def as_signed(words: Words) -> Int64:
    """The stream (n, 3) as the kernels take it: the same bits in signed numbers.

    Raises:
        SimulationError: the array has another shape or type.
    """
    if words.ndim != 2 or words.shape[1] != 3 or words.dtype.kind not in "ui" or words.dtype.itemsize != 8:
        raise SimulationError(f"a stream is (n, 3) 64-bit words; this is {words.shape} of {words.dtype}", field="words")
    return np.ascontiguousarray(words).view(np.int64)


def expand_loops(
    words: Words, parameters: GemminiParameters, loops: Int64 | None = None, *, alternate: bool = False
) -> ExpandedStream:
    """Write the loops of ``words`` (n, 3) out.

    Args:
        words: the stream: funct, rs1, rs2.
        parameters: of the accelerator.
        loops: the loops' registers, which are updated; by default those after power-on.
        alternate: the halves of the memories take turns in loop_ws, and a load takes as many tiles as a request to
            memory, both as in the RTL; without it the halves are libgemmini's, and a load takes several tiles only
            where its block stride puts them where libgemmini does, one by one.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit half of the memories.
    """
    signed = as_signed(words)
    registers = loop_registers() if loops is None else loops
    if len(signed) <= _MOST and has_no_loops(signed):
        _note_block_strides(signed, registers)
        return ExpandedStream(signed, np.arange(len(signed)))
    fault, size = np.zeros(3, np.int64), sizes(parameters)
    empty, no_origin = np.empty((0, 3), np.int64), np.empty(0, np.int64)
    count = _expand(signed, registers.copy(), size, int(alternate), _MOST, empty, no_origin, fault)
    if fault[2] != 0 or count > _MOST:
        raise _refuse(signed, fault, count)
    out, origin = np.empty((count, 3), np.int64), np.empty(count, np.int64)
    _expand(signed, registers, size, int(alternate), _MOST, out, origin, fault)
    return ExpandedStream(out, origin)


def expansion_signatures() -> tuple[Signature, ...]:
    """Returns what finds loops, and writes them out."""
    return (
        Signature(_all_primitive, MATRIX),
        Signature(_note_block_strides, MATRIX, VECTOR),
        Signature(_expand, MATRIX, VECTOR, VECTOR, SCALAR, SCALAR, MATRIX, VECTOR, VECTOR),
    )
