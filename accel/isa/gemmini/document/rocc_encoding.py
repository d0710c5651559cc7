"""Gemmini's instruction words: funct, rs1 and rs2 of a RoCC instruction, 64 bits each; and the numbers in them.

Sources: gemmini ``GemminiISA.scala`` and ``LocalAddr.scala``, gemmini-rocc-tests ``gemmini.h``. A local address is 32
bits: the row in the low ones, and the flags below.
"""

import functools
from typing import NamedTuple

from accel.accelerator.instructions import BitField, Part

WORD_BITS = 192
RS1, RS2 = 64, 128
# funct
CONFIG, MVIN2, MVIN, MVOUT, COMPUTE_PRELOADED, COMPUTE_ACCUMULATED, PRELOAD, FLUSH = range(8)
LOOP_WS, LOOP_BOUNDS, LOOP_AB, LOOP_DC, LOOP_STRIDES_AB, LOOP_STRIDES_DC, MVIN3, LOOP_CONV = range(8, 16)
CONV_1, CONV_2, CONV_3, CONV_4, CONV_5, CONV_6 = range(16, 22)
COUNTER, FENCE = 126, 127
# rs1[1:0] of CONFIG
CONFIG_EX, CONFIG_LD, CONFIG_ST, CONFIG_NORM = range(4)

# local addresses
ACCUMULATOR = 1 << 31
ACCUMULATE = 1 << 30
FULL = 1 << 29
GARBAGE = (1 << 32) - 1
LOAD_ROW = (1 << 29) - 1  # the row of a mvin and of a result
STORE_ROW = (1 << 26) - 1  # the row of a mvout: a normalisation command lies above
ONE = 0x3F800000  # 1.0 as fp32
KEEP_SCALE = (1 << 32) - 1  # config_st with this scale leaves it as it is (StoreController.scala)

# activations
NONE, RELU, LAYERNORM, IGELU, SOFTMAX = range(5)
# normalisation commands
RESET, SUM, MEAN, VARIANCE, INV_STDDEV, MAX, SUM_EXP, INV_SUM_EXP = range(8)

FENCE_NAME = "fence"
LATER = {"counter": COUNTER, FENCE_NAME: FENCE}  # which documents may leave out
LOADS = {0: ("mvin", MVIN), 1: ("mvin2", MVIN2), 2: ("mvin3", MVIN3)}  # by the state that configures it


class Spec(NamedTuple):
    """A field at a bit of a word; ``kind`` is its type, ``value`` where it is constant."""

    name: str
    lsb: int
    bits: int
    kind: str = "unsigned"
    value: int | None = None


def part(name: str, unit: str, funct: int, *fields: Spec, sticky: bool = False) -> Part:
    """An instruction of that funct; bits without a field are zero when it is made."""
    made = [BitField(name="funct", lsb=0, bits=7, value=funct)]
    made += [
        BitField.model_validate(
            {"name": field.name, "lsb": field.lsb, "bits": field.bits, "type": field.kind, "value": field.value}
        )
        for field in fields
    ]
    return Part(name=name, unit=unit, fields=tuple(made), sticky=sticky)


def local_address(prefix: str, base: int) -> tuple[Spec, ...]:
    """A local address with its size: a row of the scratchpad or, with ``is_acc``, of the accumulator."""
    return (
        Spec(f"{prefix}row", base, 26),
        Spec(f"{prefix}norm", base + 26, 3),
        Spec(f"{prefix}full", base + 29, 1),
        Spec(f"{prefix}accumulate", base + 30, 1),
        Spec(f"{prefix}is_acc", base + 31, 1),
        Spec(f"{prefix}columns", base + 32, 16),
        Spec(f"{prefix}rows", base + 48, 16),
    )


def _subtype(value: int) -> Spec:
    return Spec("subtype", RS1, 2, value=value)


def config_ex() -> Part:
    """Sets the dataflow, the transpositions and the strides of the execute unit."""
    return part(
        "config_ex", "execute", CONFIG, _subtype(CONFIG_EX), Spec("dataflow", RS1 + 2, 1),
        Spec("activation", RS1 + 3, 2),
        Spec("set_only_strides", RS1 + 7, 1), Spec("a_transpose", RS1 + 8, 1), Spec("b_transpose", RS1 + 9, 1),
        Spec("a_stride", RS1 + 16, 16), Spec("acc_scale", RS1 + 32, 32, "float32"), Spec("in_shift", RS2, 32),
        Spec("relu6_shift", RS2 + 32, 16), Spec("c_stride", RS2 + 48, 16), sticky=True,
    )  # fmt: skip


def config_ld(state: int) -> Part:
    """Sets the DRAM stride, the block stride and the scale of one of the three loads."""
    return part(
        f"config_ld{state}", "load", CONFIG, _subtype(CONFIG_LD), Spec("shrunk", RS1 + 2, 1),
        Spec("state", RS1 + 3, 2, value=state), Spec("pixel_repeats", RS1 + 8, 8), Spec("block_stride", RS1 + 16, 16),
        Spec("scale", RS1 + 32, 32, "float32"), Spec("stride", RS2, 48), sticky=True,
    )  # fmt: skip


def config_st() -> Part:
    """Sets the DRAM stride, the activation, the scale and the pooling of stores."""
    return part(
        "config_st", "store", CONFIG, _subtype(CONFIG_ST), Spec("activation", RS1 + 2, 2),
        Spec("pool_stride", RS1 + 4, 2),
        Spec("pool_size", RS1 + 6, 2), Spec("pool_top", RS1 + 8, 2), Spec("pool_left", RS1 + 10, 2),
        Spec("pool_out_dim", RS1 + 24, 8), Spec("pool_rows", RS1 + 32, 8), Spec("pool_columns", RS1 + 40, 8),
        Spec("out_rows", RS1 + 48, 8), Spec("out_columns", RS1 + 56, 8), Spec("stride", RS2, 32),
        Spec("scale", RS2 + 32, 32, "float32"), sticky=True,
    )  # fmt: skip


def config_norm(*, compiled: bool, whole: bool = False) -> Part:
    """Sets the constants of the normalising activations; ``compiled`` programs send signed ones, where they change.

    They have ``config_norm_inverse`` for the inverse of ln 2; of a ``whole`` one that is a bit, as it is otherwise.
    """
    return _config_norm("config_norm", 0 if compiled and not whole else None, compiled=compiled)


def config_norm_inverse() -> Part:
    """Sets what ``config_norm`` does, but for the inverse of ln 2 in place of ln 2."""
    return _config_norm("config_norm_inverse", 1, compiled=True)


def _config_norm(name: str, inverse: int | None, *, compiled: bool) -> Part:
    kind = "signed" if compiled else "unsigned"
    return part(
        name, "store", CONFIG, _subtype(CONFIG_NORM), Spec("statistics", RS1 + 8, 8),
        Spec("activation_high", RS1 + 16, 1), Spec("only_statistics", RS1 + 17, 1),
        Spec("inverse", RS1 + 18, 1, value=inverse),
        Spec("q_const", RS1 + 32, 32), Spec("qb", RS2, 32, kind), Spec("qc", RS2 + 32, 32, kind), sticky=compiled,
    )  # fmt: skip


def move_instructions() -> tuple[Part, ...]:
    """The three loads and the store."""
    dram = Spec("dram", RS1, 48)
    loads = tuple(part(name, "load", funct, dram, *local_address("", RS2)) for name, funct in LOADS.values())
    return (*loads, part("mvout", "store", MVOUT, dram, *local_address("", RS2)))


def execution() -> tuple[Part, ...]:
    """The preload and the two computes."""
    return (
        part("preload", "execute", PRELOAD, *local_address("b_", RS1), *local_address("c_", RS2)),
        part("compute_preloaded", "execute", COMPUTE_PRELOADED, *local_address("a_", RS1), *local_address("d_", RS2)),
        part(
            "compute_accumulated", "execute", COMPUTE_ACCUMULATED, *local_address("a_", RS1), *local_address("d_", RS2)
        ),
    )


_DRAM_BITS, _STRIDE_BITS = 48, 32


def loop_instructions() -> tuple[Part, ...]:
    """The macro-instructions and what configures them."""
    return (*_matmul_loop(), *_conv_loop())


def _pair(name: str, funct: int, first: str, second: str, bits: int) -> Part:
    return part(name, "execute", funct, Spec(first, RS1, bits), Spec(second, RS2, bits))


def _quarters(name: str, funct: int, first: tuple[str, ...], second: tuple[str, ...]) -> Part:
    """Fields of 16 bits from the lowest on."""
    fields = [Spec(each, RS1 + 16 * at, 16) for at, each in enumerate(first)]
    return part(name, "execute", funct, *fields, *(Spec(each, RS2 + 16 * at, 16) for at, each in enumerate(second)))


def _matmul_loop() -> tuple[Part, ...]:
    return (
        part(
            "loop_ws", "execute", LOOP_WS, Spec("accumulate", RS1, 1), Spec("full_c", RS1 + 1, 1),
            Spec("low_d", RS1 + 2, 1), Spec("activation", RS1 + 8, 3), Spec("b_half", RS1 + 16, 2),
            Spec("a_half", RS1 + 18, 2), Spec("a_transpose", RS2, 1), Spec("b_transpose", RS2 + 1, 1),
            Spec("addition", RS2 + 2, 1),
        ),
        _quarters("loop_ws_bounds", LOOP_BOUNDS, ("pad_i", "pad_j", "pad_k"), ("i", "j", "k")),
        _pair("loop_ws_addresses_ab", LOOP_AB, "a", "b", _DRAM_BITS),
        _pair("loop_ws_addresses_dc", LOOP_DC, "d", "c", _DRAM_BITS),
        _pair("loop_ws_strides_ab", LOOP_STRIDES_AB, "a_stride", "b_stride", _STRIDE_BITS),
        _pair("loop_ws_strides_dc", LOOP_STRIDES_DC, "d_stride", "c_stride", _STRIDE_BITS),
    )  # fmt: skip


def _conv_loop() -> tuple[Part, ...]:
    """Returns the parts of a convolution's loop; fields ``all_`` are of the layer, the others of the tile."""
    return (
        part(
            "loop_conv_ws", "execute", LOOP_CONV, Spec("no_bias", RS1, 1), Spec("turned", RS1 + 1, 1),
            Spec("trans_output", RS1 + 2, 1), Spec("trans_weight_1203", RS1 + 3, 1),
            Spec("trans_weight_0132", RS1 + 4, 1), Spec("trans_input", RS1 + 5, 1), Spec("depthwise", RS1 + 6, 1),
            Spec("pixels", RS1 + 8, 8), Spec("b_half", RS1 + 16, 2), Spec("a_half", RS1 + 18, 2),
            Spec("no_pool", RS2, 1), Spec("downsample", RS2 + 1, 1), Spec("dilated_input", RS2 + 2, 1),
            Spec("activation", RS2 + 3, 2),
        ),
        part(
            "loop_conv_ws_1", "execute", CONV_1, Spec("all_batch", RS1, 16), Spec("all_in_rows", RS1 + 16, 16),
            Spec("all_in_channels", RS1 + 32, 16), Spec("all_out_channels", RS1 + 48, 16),
            Spec("all_out_rows", RS2, 16), Spec("all_pool_rows", RS2 + 16, 16), Spec("all_out_columns", RS2 + 32, 16),
            Spec("stride", RS2 + 48, 8), Spec("padding", RS2 + 56, 8),
        ),
        part(
            "loop_conv_ws_2", "execute", CONV_2, Spec("pool_padding", RS1, 8), Spec("pool_stride", RS1 + 8, 8),
            Spec("pool_size", RS1 + 16, 16), Spec("all_pool_columns", RS1 + 32, 16), Spec("all_kernel", RS1 + 48, 16),
            Spec("channels", RS2, 16), Spec("pool_columns", RS2 + 16, 16), Spec("pool_rows", RS2 + 32, 16),
            Spec("batch", RS2 + 48, 16),
        ),
        part(
            "loop_conv_ws_3", "execute", CONV_3, Spec("pad_left", RS1, 16), Spec("in_channels", RS1 + 16, 16),
            Spec("kernel_columns", RS1 + 32, 16), Spec("kernel_rows", RS1 + 48, 16), Spec("all_in_columns", RS2, 16),
            Spec("pool_left", RS2 + 16, 8), Spec("pad_bottom", RS2 + 24, 8), Spec("pad_top", RS2 + 32, 16),
            Spec("pad_right", RS2 + 48, 16),
        ),
        part(
            "loop_conv_ws_4", "execute", CONV_4, Spec("dilation", RS1, 8), Spec("pool_bottom", RS1 + 10, 8),
            Spec("pool_top", RS1 + 21, 8), Spec("pool_right", RS1 + 32, 16), Spec("rows", RS1 + 48, 16),
            Spec("columns", RS2, 16), Spec("out_stride", RS2 + 16, 16), Spec("weight_stride", RS2 + 32, 16),
            Spec("in_stride", RS2 + 48, 16),
        ),
        _pair("loop_conv_ws_5", CONV_5, "weights", "output", _DRAM_BITS),
        _pair("loop_conv_ws_6", CONV_6, "bias", "input", _DRAM_BITS),
    )  # fmt: skip


@functools.cache
def unnamed_loop_fields() -> tuple[Part, ...]:
    """The loops' instructions as documents had them before their fields had names: quarters of the two words."""
    quarters = [Spec(f"rs{1 + word}_{n}", RS1 + 64 * word + 16 * n, 16) for word in (0, 1) for n in range(4)]
    names = {each.name: int(each.fields[0].value or 0) for each in loop_instructions()}
    return tuple(part(name, "execute", funct, *quarters) for name, funct in names.items())


def other_instructions() -> tuple[Part, ...]:
    """What leaves memories alone: emptying the translation buffer, the performance counters, and waiting for all.

    ``fence`` is libgemmini's; hardware is waited for by the processor's own fence.
    """
    return part("flush", "load", FLUSH), *(part(name, "load", funct) for name, funct in LATER.items())
