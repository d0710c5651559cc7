"""VTA's ten-key configuration, and the accelerator document derived from it.

Source: tvm-vta ``config/vta_config.py``, ``include/vta/hw_spec.h`` (field widths and order).
"""

from typing import Any

from pydantic import Field

from accel.accelerator.document import (
    Accelerator,
    BitField,
    Contract,
    Copy,
    CopyFields,
    Dram,
    Finish,
    HardwareLoop,
    Map,
    MapOp,
    Memory,
    MicroOps,
    Model,
    Operand,
    Sync,
    Tokens,
)
from accel.errors import InvalidAccelerator

_UNITS = ("load", "compute", "store")
_CALIBRATED = "exact on the Chisel RTL as 1x16_i8w8a32_15_15_18_17 with a 64-bit bus: 59 of 59 programs"
_UNCALIBRATED = "not compared with hardware; the rules are those that are exact for 1x16_i8w8a32_15_15_18_17"


class VtaConfig(Model):
    """The original ``vta_config.json``: log2 of bits (widths), of elements (batch, block), of bytes (buffers)."""

    TARGET: str = "sim"
    HW_VER: str = "0.0.2"
    LOG_INP_WIDTH: int = Field(3, ge=3, le=3)
    LOG_WGT_WIDTH: int = Field(3, ge=3, le=3)
    LOG_ACC_WIDTH: int = Field(5, ge=5, le=5)
    LOG_BATCH: int = Field(0, ge=0, le=4)
    LOG_BLOCK: int = Field(4, ge=0, le=7)
    LOG_UOP_BUFF_SIZE: int = Field(15, ge=2, le=24)
    LOG_INP_BUFF_SIZE: int = Field(15, ge=0, le=24)
    LOG_WGT_BUFF_SIZE: int = Field(18, ge=0, le=24)
    LOG_ACC_BUFF_SIZE: int = Field(17, ge=2, le=24)


def _pack_fields(spec: list[tuple[str, int] | tuple[str, int, int]], lsb: int = 0) -> list[BitField]:
    """Lay fields out from bit 0; one that would cross bit 64 starts word 1."""
    fields = []
    for name, bits, *value in spec:
        if lsb < 64 < lsb + bits:
            lsb = 64
        fields.append(BitField(name=name, lsb=lsb, bits=bits, signed=name == "imm", value=value[0] if value else None))
        lsb += bits
    return fields


def _tokens(unit: str) -> Tokens:
    """Prev is the unit before this one in load -> compute -> store, next the unit after it."""
    index = _UNITS.index(unit)
    pop, push = {}, {}
    if index > 0:
        pop[_UNITS[index - 1]] = "pop_prev"
        push[_UNITS[index - 1]] = "push_prev"
    if index < len(_UNITS) - 1:
        pop[_UNITS[index + 1]] = "pop_next"
        push[_UNITS[index + 1]] = "push_next"
    return Tokens(pop=pop, push=push)


def _head(opcode: int) -> list[tuple[str, int] | tuple[str, int, int]]:
    return [("opcode", 3, opcode), ("pop_prev", 1), ("pop_next", 1), ("push_prev", 1), ("push_next", 1)]


def _copy(name: str, unit: str, memory: Memory, memory_id: int, *, store: bool, pads: bool) -> Copy:
    word0 = _pack_fields(
        [*_head(1 if store else 0), ("memory_type", 3, memory_id), ("sram_base", 16), ("dram_base", 32)]
    )
    word1 = _pack_fields(
        [
            ("y_size", 16),
            ("x_size", 16),
            ("x_stride", 16),
            *((f"{axis}_pad_{side}", 4) for axis in "yx" for side in (0, 1)),
        ],
        lsb=64,
    )
    names = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1") if pads else (None,) * 4
    return Copy(
        name=name,
        unit=unit,
        fields=tuple(word0 + word1),
        tokens=_tokens(unit),
        pragma="pragma_dma_copy",
        direction="store" if store else "load",
        memory=memory.name,
        dram_dtype="int8" if store else memory.dtype,
        copy_fields=CopyFields(
            sram="sram_base",
            dram="dram_base",
            rows="y_size",
            columns="x_size",
            row_stride="x_stride",
            pad_top=names[0],
            pad_bottom=names[1],
            pad_left=names[2],
            pad_right=names[3],
        ),
    )


def _store_sync() -> Sync:
    """A store of nothing; old TVM writes memory 0 in it, which no store that copies may name."""
    word0 = _pack_fields([*_head(1), ("memory_type", 3, 0), ("sram_base", 16), ("dram_base", 32)])
    word1 = _pack_fields([("y_size", 16), ("x_size", 16, 0), ("x_stride", 16)], lsb=64)
    return Sync(name="store_sync", unit="store", fields=tuple(word0 + word1), tokens=_tokens("store"))


def _log2(depth: int) -> int:
    return depth.bit_length() - 1


def _memories(config: VtaConfig) -> tuple[Memory, ...]:
    batch, block = 1 << config.LOG_BATCH, 1 << config.LOG_BLOCK
    specs: list[tuple[str, int, Any, tuple[int, ...], int]] = [
        ("uop", 0, "uint32", (1,), config.LOG_UOP_BUFF_SIZE),
        ("wgt", 1, "int8", (block, block), config.LOG_WGT_BUFF_SIZE),
        ("inp", 2, "int8", (batch, block), config.LOG_INP_BUFF_SIZE),
        ("acc", 3, "int32", (batch, block), config.LOG_ACC_BUFF_SIZE),
    ]
    memories = []
    for name, memory_id, dtype, shape, log_bytes in specs:
        memory = Memory(name=name, scope=f"local.{name}_buffer", dtype=dtype, shape=shape, depth=1, id=memory_id)
        depth = (1 << log_bytes) // memory.element_bytes
        if depth < 1:
            raise InvalidAccelerator(
                f"the {name} buffer has {1 << log_bytes} bytes; one element needs {memory.element_bytes}",
                field=f"LOG_{name.upper()}_BUFF_SIZE",
            )
        memories.append(memory.model_copy(update={"depth": depth}))
    return tuple(memories)


def _loops(operands: dict[str, str]) -> tuple[HardwareLoop, ...]:
    return tuple(
        HardwareLoop(
            extent=f"iter_{side}", factors={name: f"{prefix}_factor_{side}" for name, prefix in operands.items()}
        )
        for side in ("out", "in")
    )


def vta_accelerator(config: VtaConfig, *, name: str, title: str) -> Accelerator:
    """The accelerator document of a VTA configuration.

    Raises:
        InvalidAccelerator: a buffer smaller than one element, or fields that do not fit the encoding.
    """
    uop, wgt, inp, acc = memories = _memories(config)
    bits = {memory.name: _log2(memory.depth) for memory in memories}
    uop_fields = tuple(
        _pack_fields([("dst_idx", bits["acc"]), ("src_idx", max(bits["acc"], bits["inp"])), ("wgt_idx", bits["wgt"])])
    )
    if uop_fields[-1].lsb + uop_fields[-1].bits > 32:
        raise InvalidAccelerator(
            f"a micro-op needs {uop_fields[-1].lsb + uop_fields[-1].bits} bits for its three indices; 32 are there",
            field="LOG_ACC_BUFF_SIZE",
        )

    def table(operands: dict[str, str]) -> MicroOps:
        return MicroOps(memory="uop", begin="uop_bgn", end="uop_end", fields=uop_fields, operands=operands)

    walk: list[tuple[str, int] | tuple[str, int, int]] = [
        ("reset_reg", 1),
        ("uop_bgn", bits["uop"]),
        ("uop_end", bits["uop"] + 1),
        ("iter_out", 14),
        ("iter_in", 14),
    ]

    def factors(kind: str, memory: str) -> list[tuple[str, int] | tuple[str, int, int]]:
        return [(f"{kind}_factor_out", bits[memory]), (f"{kind}_factor_in", bits[memory])]

    def words(opcode: int, tail: list[tuple[str, int] | tuple[str, int, int]]) -> tuple[BitField, ...]:
        fields = (*_pack_fields(_head(opcode) + walk), *_pack_fields(tail, lsb=64))
        if fields[-1].lsb + fields[-1].bits > 128 or any(f.lsb < 64 < f.lsb + f.bits for f in fields):
            raise InvalidAccelerator("the instruction's fields do not fit 128 bits", field="LOG_ACC_BUFF_SIZE")
        return fields

    gemm = Contract(
        name="gemm",
        unit="compute",
        fields=words(2, factors("dst", "acc") + factors("src", "inp") + factors("wgt", "wgt")),
        tokens=_tokens("compute"),
        pragma="pragma_gemm",
        dst=Operand(name="dst", memory="acc", axes=("b", "o")),
        data=Operand(name="data", memory="inp", axes=("b", "i")),
        weights=Operand(name="weights", memory="wgt", axes=("o", "i")),
        reset="reset_reg",
        loops=_loops({"dst": "dst", "data": "src", "weights": "wgt"}),
        microops=table({"dst_idx": "dst", "src_idx": "data", "wgt_idx": "weights"}),
    )
    alu = Map(
        name="alu",
        unit="compute",
        fields=words(
            4,
            [*factors("dst", "acc"), *factors("src", "acc"), ("alu_opcode", 3), ("use_imm", 1), ("imm", 16)],
        ),
        tokens=_tokens("compute"),
        pragma="pragma_alu",
        dst=Operand(name="dst", memory="acc", axes=("b", "o")),
        src=Operand(name="src", memory="acc", axes=("b", "o")),
        ops=(
            MapOp(name="min", code=0),
            MapOp(name="max", code=1),
            MapOp(name="add", code=2),
            MapOp(name="shift_right", code=3),
        ),
        opcode="alu_opcode",
        use_immediate="use_imm",
        immediate="imm",
        loops=_loops({"dst": "dst", "src": "src"}),
        microops=table({"dst_idx": "dst", "src_idx": "src"}),
    )
    return Accelerator(
        name=name,
        title=title,
        family="vta",
        word_bits=128,
        memories=memories,
        units=_UNITS,
        instructions=(
            _copy("load_inp", "load", inp, inp.id, store=False, pads=True),
            _copy("load_wgt", "load", wgt, wgt.id, store=False, pads=True),
            _copy("load_uop", "compute", uop, uop.id, store=False, pads=True),
            _copy("load_acc", "compute", acc, acc.id, store=False, pads=True),
            gemm,
            alu,
            # a store names the memory `out` (4): the low bits of acc
            _copy("store_out", "store", acc, 4, store=True, pads=False),
            _store_sync(),
            Finish(name="finish", unit="compute", fields=tuple(_pack_fields(_head(3))), tokens=_tokens("compute")),
        ),
        dram=Dram(bus_bytes=8, read_latency=16, burst_beats=256, burst_boundary_bytes=2048),
        timing={"fetch_burst_instructions": 128, "queue_depth": 512, "token_limit": 255, "reads_in_flight": 16},
        calibration=_CALIBRATED if config == VtaConfig() else _UNCALIBRATED,
        source=config.model_dump(),
    )
