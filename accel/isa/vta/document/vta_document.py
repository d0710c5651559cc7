"""Accelerator document of a VTA: what follows from the ten keys, and from the implementation's variant."""

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import (
    BitField,
    Compute,
    Copy,
    CopyFields,
    Finish,
    HardwareLoop,
    MicroOps,
    Operand,
    Operation,
    Sync,
)
from accel.accelerator.memories import Dram, DType, Memory
from accel.isa.vta.document import instruction_fields
from accel.isa.vta.document.configuration_limits import check_config, check_variant
from accel.isa.vta.document.instruction_fields import ACCUMULATE, UNITS, ZERO, two_operands, with_immediate
from accel.isa.vta.document.vta_configuration import MEMORIES, SPECIFICATION, Variant, VtaConfig
from accel.isa.vta.document.vta_parameters import VtaParameters

__all__ = ["Variant", "VtaConfig", "vta_accelerator"]

_OPERATIONS = ("min", "max", "add", "shift_right")  # by their codes
_OUT, _ACC_8BIT = 4, 5  # memory types that are no memory of their own: the low bits of acc


def vta_accelerator(
    config: VtaConfig, variant: Variant = SPECIFICATION, *, name: str | None = None, title: str | None = None
) -> Accelerator:
    """The accelerator document of a VTA configuration; it is called by the original's label unless ``name`` says.

    Raises:
        InvalidAccelerator: there can be no such accelerator; ``field`` is the key to mend.
    """
    check_config(config)
    check_variant(variant, config)
    name = name or config.label + ("" if variant == SPECIFICATION else "_variant")
    bits = config.index_bits()
    depths = {memory: 1 << count for memory, count in bits.items()}
    if variant.microop_depth is not None:
        depths["uop"] = variant.microop_depth
    elements = config.elements()
    memories = {memory: elements[memory].model_copy(update={"depth": depths[memory]}) for memory in MEMORIES}
    return Accelerator(
        name=name,
        title=title or f"VTA {name}",
        family="vta",
        clock_mhz=variant.clock_mhz,
        word_bits=instruction_fields.WORD_BITS,
        memories=tuple(memories.values()),
        units=UNITS,
        synchronisation=TokenSync(limit=variant.token_limit, carry=variant.carry_tokens),
        instructions=(
            _load("load_inp", "load", memories["inp"]),
            _load("load_wgt", "load", memories["wgt"]),
            _load("load_uop", "compute", memories["uop"]),
            _load("load_acc", "compute", memories["acc"]),
            *([_load_acc_8bit(memories["acc"])] if variant.acc_8bit else []),
            _gemm(bits),
            _alu(bits, variant),
            _store(memories["acc"]),
            _store_sync(),
            Finish(
                name="finish",
                unit="compute",
                fields=instruction_fields.pack(instruction_fields.head(instruction_fields.FINISH)),
                tokens=instruction_fields.tokens("compute"),
            ),
        ),
        dram=Dram(bus_bytes=variant.bus_bytes, read_latency=variant.read_latency),
        parameters=VtaParameters(
            queue_depths=variant.depths(),
            immediate_pass_cycles=variant.immediate_pass_cycles,
            two_operand_pass_cycles=variant.two_operand_pass_cycles,
            out_memory=variant.out_memory,
            alu_stale_cycles=variant.alu_stale_cycles,
        ).model_dump(),
        source={"vta_config": config.model_dump(), "variant": variant.model_dump(exclude_defaults=True)},
    )


def _copy(name: str, unit: str, memory: Memory, fields: tuple[BitField, ...], dram_dtype: DType, does: str) -> Copy:
    """``does`` is empty where elements stay as they are; stores do not pad."""
    store = does.startswith("dram")
    pads = {"pad_top": "y_pad_0", "pad_bottom": "y_pad_1", "pad_left": "x_pad_0", "pad_right": "x_pad_1"}
    return Copy(
        name=name,
        unit=unit,
        fields=fields,
        tokens=instruction_fields.tokens(unit),
        pragma="pragma_dma_copy",
        direction="store" if store else "load",
        memory=memory.name,
        dram_dtype=dram_dtype,
        copy_fields=CopyFields(
            sram="sram_base",
            dram="dram_base",
            rows="y_size",
            columns="x_size",
            row_stride="x_stride",
            **({} if store else pads),
        ),
        operations=(Operation(name="narrow" if store else "widen", does=does),) if does else (),
    )


def _load(name: str, unit: str, memory: Memory) -> Copy:
    fields = instruction_fields.copy_fields(instruction_fields.LOAD, MEMORIES.index(memory.name))
    return _copy(name, unit, memory, fields, memory.dtype_in_dram, "")


def _load_acc_8bit(acc: Memory) -> Copy:
    fields = instruction_fields.copy_fields(instruction_fields.LOAD, _ACC_8BIT)
    return _copy("load_acc_8bit", "compute", acc, fields, "int8", "sram[b, o] = i32(dram[b, o])")


def _store(acc: Memory) -> Copy:
    fields = instruction_fields.copy_fields(instruction_fields.STORE, _OUT)
    return _copy("store_out", "store", acc, fields, "int8", "dram[b, o] = i8(sram[b, o])")


def _store_sync() -> Sync:
    """A store of nothing; old TVM writes memory 0 in it, which no store that copies may name."""
    fields = instruction_fields.copy_fields(instruction_fields.STORE, 0, columns=0)
    return Sync(name="store_sync", unit="store", fields=fields, tokens=instruction_fields.tokens("store"))


def _loops(operands: dict[str, str]) -> tuple[HardwareLoop, ...]:
    return tuple(
        HardwareLoop(
            extent=f"iter_{side}", factors={name: f"{prefix}_factor_{side}" for name, prefix in operands.items()}
        )
        for side in ("out", "in")
    )


def _table(bits: dict[str, int], operands: dict[str, str]) -> MicroOps:
    fields = instruction_fields.microop_fields(bits)
    return MicroOps(memory="uop", begin="uop_bgn", end="uop_end", fields=fields, operands=operands)


def _gemm(bits: dict[str, int]) -> Compute:
    return Compute(
        name="gemm",
        unit="compute",
        fields=instruction_fields.gemm_fields(bits),
        tokens=instruction_fields.tokens("compute"),
        pragma="pragma_gemm",
        operands={"dst": Operand(memory="acc"), "data": Operand(memory="inp"), "weights": Operand(memory="wgt")},
        operations=(
            Operation(name="accumulate", when={"reset_reg": 0}, does=ACCUMULATE),
            Operation(name="zero", when={"reset_reg": 1}, does=ZERO),
        ),
        loops=_loops({"dst": "dst", "data": "src", "weights": "wgt"}),
        microops=_table(bits, {"dst_idx": "dst", "src_idx": "data", "wgt_idx": "weights"}),
    )


def _alu(bits: dict[str, int], variant: Variant) -> Compute:
    names = (*_OPERATIONS, "multiply") if variant.multiply else _OPERATIONS
    immediates = [with_immediate(name, variant.immediate_with) for name in names]
    pairs = [two_operands(name) for name in names]
    return Compute(
        name="alu",
        unit="compute",
        fields=instruction_fields.alu_fields(bits),
        tokens=instruction_fields.tokens("compute"),
        pragma="pragma_alu",
        operands={"dst": Operand(memory="acc"), "src": Operand(memory="acc")},
        operations=tuple(
            Operation(name=f"{name}{suffix}", when={"alu_opcode": code, "use_imm": use}, does=texts[code])
            for use, suffix, texts in ((1, "_imm", immediates), (0, "", pairs))
            for code, name in enumerate(names)
        ),
        loops=_loops({"dst": "dst", "src": "src"}),
        microops=_table(bits, {"dst_idx": "dst", "src_idx": "src"}),
    )
