"""Gemmini's instruction words: funct, rs1 and rs2 of a RoCC instruction, 64 bits each; and the numbers in them.

Sources: gemmini ``GemminiISA.scala`` and ``LocalAddr.scala``, gemmini-rocc-tests ``gemmini.h``. A local address is 32
bits: the row in the low ones, and the flags below.
"""

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

LATER = {"counter": COUNTER, "fence": FENCE}  # which documents may leave out
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


def config_norm() -> Part:
    """Sets the constants of the normalising activations."""
    return part(
        "config_norm", "store", CONFIG, _subtype(CONFIG_NORM), Spec("statistics", RS1 + 8, 8),
        Spec("activation_high", RS1 + 16, 1), Spec("only_statistics", RS1 + 17, 1), Spec("inverse", RS1 + 18, 1),
        Spec("q_const", RS1 + 32, 32), Spec("qb", RS2, 32), Spec("qc", RS2 + 32, 32),
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


def loop_instructions() -> tuple[Part, ...]:
    """The macro-instructions and what configures them, field by field as far as they are of whole halves."""
    quarters = [Spec(f"rs{1 + word}_{n}", RS1 + 64 * word + 16 * n, 16) for word in (0, 1) for n in range(4)]
    names = {
        LOOP_WS: "loop_ws",
        LOOP_BOUNDS: "loop_ws_bounds",
        LOOP_AB: "loop_ws_addresses_ab",
        LOOP_DC: "loop_ws_addresses_dc",
        LOOP_STRIDES_AB: "loop_ws_strides_ab",
        LOOP_STRIDES_DC: "loop_ws_strides_dc",
        LOOP_CONV: "loop_conv_ws",
        **{CONV_1 + n: f"loop_conv_ws_{n + 1}" for n in range(6)},
    }
    return tuple(part(name, "execute", funct, *quarters) for funct, name in names.items())


def other_instructions() -> tuple[Part, ...]:
    """What leaves memories alone: emptying the translation buffer, the performance counters, and waiting for all.

    ``fence`` is libgemmini's; hardware is waited for by the processor's own fence.
    """
    return part("flush", "load", FLUSH), *(part(name, "load", funct) for name, funct in LATER.items())
