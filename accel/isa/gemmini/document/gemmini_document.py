"""Accelerator document of a Gemmini: what follows from its parameters, and whether a document describes one."""

import functools
import json
from typing import Any

import pydantic

from accel.accelerator.document import Accelerator, HazardSync
from accel.accelerator.instructions import (
    Compute,
    Copy,
    CopyBlocks,
    CopyFields,
    CopyWindows,
    HardwareLoop,
    Instruction,
    Layer,
    Operand,
    Operation,
    Part,
    WindowAxis,
)
from accel.accelerator.memories import Dram, Memory
from accel.accelerator.require import require
from accel.errors import InvalidAccelerator
from accel.isa.gemmini.document import rocc_encoding
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.document.loop_layers import loop_layers
from accel.isa.gemmini.document.normalised_rows import row_functions, row_stores
from accel.isa.gemmini.document.rocc_encoding import IGELU, LATER, ONE, RELU

_WEIGHT_STATIONARY = 1
_GARBAGE = {"row": (1 << 26) - 1, "norm": 7, "full": 1, "accumulate": 1, "is_acc": 1}
_SPAD, _ACC = "spad", "acc"


def gemmini_accelerator(
    parameters: GemminiParameters, *, name: str = "gemmini", title: str = "", clock_mhz: float = 1000.0
) -> Accelerator:
    """The document of a configuration; ``parameters`` are in it."""
    dim = parameters.dim
    return Accelerator(
        name=name,
        title=title or f"Gemmini {dim}x{dim}",
        family="gemmini",
        clock_mhz=clock_mhz,
        word_bits=rocc_encoding.WORD_BITS,
        memories=(
            Memory(
                name=_SPAD,
                scope="local.scratchpad",
                dtype="int8",
                shape=(dim,),
                depth=parameters.scratchpad_rows,
                ports=parameters.scratchpad_banks,
                banks=parameters.scratchpad_banks,
            ),
            Memory(
                name=_ACC,
                scope="local.accumulator",
                dtype="int32",
                shape=(dim,),
                depth=parameters.accumulator_rows,
                ports=parameters.accumulator_banks,
                banks=parameters.accumulator_banks,
            ),
        ),
        units=("load", "execute", "store"),
        synchronisation=HazardSync(
            window=parameters.load_entries + parameters.store_entries + parameters.execute_entries
        ),
        instructions=(
            *(rocc_encoding.config_ld(state) for state in rocc_encoding.LOADS),
            rocc_encoding.config_ex(),
            rocc_encoding.config_st(),
            rocc_encoding.config_norm(compiled=parameters.normalizations),
            *((rocc_encoding.config_norm_inverse(),) if parameters.normalizations else ()),
            *rocc_encoding.move_instructions(),
            *rocc_encoding.execution(),
            *rocc_encoding.other_instructions(),
            *rocc_encoding.loop_instructions(),
            _load("load_rows", _SPAD, "int8", 0, dim, parameters.wide_columns // dim),
            _load("load_accumulators", _ACC, "int32", 2, dim),
            _matmul(dim),
            _store_scaled(dim, parameters.wide_columns // dim),
            _store_full(dim),
            *loop_layers(parameters, _SPAD, _ACC),
            _load_widened(dim, parameters.wide_columns // dim),
            _store_pooled(dim),
            *((_store_gelu(dim, parameters.wide_columns // dim),) if parameters.normalizations else ()),
            *_row_stores(parameters),
        ),
        dram=Dram(
            bus_bytes=parameters.dma_bus_bytes,
            read_latency=parameters.memory_latency,
            burst_beats=max(1, parameters.dma_max_bytes // parameters.dma_bus_bytes),
            burst_boundary_bytes=parameters.dma_max_bytes,
            alignment_bytes=64,
        ),
        parameters=parameters.model_dump(exclude_defaults=True),
    )


def _row_stores(parameters: GemminiParameters) -> tuple[Copy, ...]:
    """The stores of functions of rows, where a mvout takes several blocks of one."""
    blocks = parameters.wide_columns // parameters.dim
    return row_stores(parameters.dim, blocks) if parameters.normalizations and blocks > 1 else ()


def _load(name: str, memory: str, dtype: str, state: int, dim: int, blocks: int = 1) -> Copy:
    """The load of a memory, of as many ``blocks`` of each row."""
    config, move = f"config_ld{state}", rocc_encoding.LOADS[state][0]
    when = {f"{config}.scale": ONE, f"{move}.is_acc": int(memory == _ACC)}
    several = None
    if blocks > 1:
        several = CopyBlocks(scalars=f"{move}.columns", stride=f"{config}.block_stride", most=blocks)
    else:
        when[f"{move}.columns"] = dim
    return Copy(
        name=name,
        unit="load",
        sequence=(config, move),
        pragma="pragma_mvin",
        direction="load",
        memory=memory,
        dram_dtype="int32" if dtype == "int32" else "int8",
        dram_unit="byte",
        max_rows=dim,
        copy_fields=CopyFields(
            sram=f"{move}.row", dram=f"{move}.dram", rows=f"{move}.rows", row_stride=f"{config}.stride"
        ),
        blocks=several,
        operations=(Operation(name="copy", when=when, does="sram[n] = dram[n]"),),
    )


def _load_widened(dim: int, blocks: int) -> Copy:
    """The load of int8 into accumulators, in place of what is there or onto it."""
    load = _load("load_widened", _ACC, "int8", 1, dim, blocks)
    when = load.operations[0].when | {"config_ld1.shrunk": 1}
    operations = (
        Operation(name="widen", when=when | {"mvin2.accumulate": 0}, does="sram[n] = i32(dram[n])"),
        Operation(name="add", when=when | {"mvin2.accumulate": 1}, does="sram[n] += i32(dram[n])"),
    )
    return load.model_copy(update={"operations": operations})


def _matmul(dim: int) -> Compute:
    config, preload, compute = "config_ex", "preload", "compute_preloaded"
    when = {
        f"{config}.dataflow": _WEIGHT_STATIONARY,
        f"{config}.c_stride": 1,
        f"{preload}.b_columns": dim,
        f"{preload}.b_rows": dim,
        f"{preload}.c_columns": dim,
        f"{preload}.c_is_acc": 1,
        f"{preload}.c_accumulate": 1,
        f"{compute}.a_columns": dim,
        f"{compute}.d_columns": dim,
        f"{compute}.d_rows": dim,
        **{f"{compute}.d_{field}": value for field, value in _GARBAGE.items()},
    }
    return Compute(
        name="matmul",
        unit="execute",
        sequence=(config, preload, compute),
        pragma="pragma_matmul",
        operands={
            "C": Operand(memory=_ACC, address=f"{preload}.c_row"),
            "A": Operand(memory=_SPAD, address=f"{compute}.a_row"),
            "B": Operand(memory=_SPAD, shape=(dim, dim), address=f"{preload}.b_row", stays=True),
        },
        operations=(
            Operation(name="accumulate", when=when, does="C[n] += i32(A[k]) * i32(B[k, n])"),
            Operation(
                name="overwrite",
                when=when | {f"{preload}.c_accumulate": 0},
                does="C[n] = i32(A[k]) * i32(B[k, n])",
            ),
        ),
        loops=(
            HardwareLoop(
                extent=f"{compute}.a_rows",
                repeated_in=(f"{preload}.c_rows",),
                limit=dim,
                factors={"A": f"{config}.a_stride"},
                steps={"C": 1},
            ),
        ),
    )


def _store(name: str, dtype: str, dim: int, operations: dict[str, tuple[dict[str, int], str]], blocks: int = 1) -> Copy:
    """The store of accumulators, of as many ``blocks`` of each row, which lie ``dim`` rows apart."""
    return Copy(
        name=name,
        unit="store",
        sequence=("config_st", "mvout"),
        pragma="pragma_mvout",
        direction="store",
        memory=_ACC,
        dram_dtype="int32" if dtype == "int32" else "int8",
        dram_unit="byte",
        max_rows=dim,
        copy_fields=CopyFields(sram="mvout.row", dram="mvout.dram", rows="mvout.rows", row_stride="config_st.stride"),
        blocks=CopyBlocks(scalars="mvout.columns", apart=dim, most=blocks) if blocks > 1 else None,
        operations=tuple(
            Operation(
                name=kind,
                when={"mvout.is_acc": 1} | ({} if blocks > 1 else {"mvout.columns": dim}) | when,
                does=does,
            )
            for kind, (when, does) in operations.items()
        ),
    )


def _store_scaled(dim: int, blocks: int = 1) -> Copy:
    scaled = "dram[n] = i8(clip(rint(f32(sram[n]) * scale), {low}, 127.0))"
    return _store(
        "store_scaled",
        "int8",
        dim,
        {
            "scale": ({"config_st.activation": 0}, scaled.format(low="-128.0")),
            "scale_relu": ({"config_st.activation": RELU}, scaled.format(low="0.0")),
        },
        blocks,
    )


def _store_gelu(dim: int, blocks: int) -> Copy:
    """The store of I-BERT's integer GELU (AccumulatorScale.scala ``igelu``), of all accumulators but the least int32.

    It is x * (erf(x / sqrt 2) + 1), in units of a constant: erf is a parabola up to ``-qb`` of each side, and then 1.
    """
    bent, turned = "min(sram[n] + qb, 0)", "min(qb - sram[n], 0)"
    erf = f"select(sram[n] < 0, -({turned} * {turned} + qc), {bent} * {bent} + qc)"
    gelu = f"sram[n] * ({erf} + qc)"
    does = f"dram[n] = i8(clip(rint(f32({gelu}) * scale), -128.0, 127.0))"
    store = _store("store_gelu", "int8", dim, {"gelu": ({"config_st.activation": IGELU}, does)}, blocks)
    return store.model_copy(update={"sequence": ("config_norm", *store.sequence), "pragma": "pragma_mvout_gelu"})


def _store_pooled(dim: int) -> Copy:
    """The store of the largest of square windows; it takes an image to end with its bank (ReservationStation.scala)."""
    plain = _store_scaled(dim)
    fields = CopyFields(sram="mvout.row", dram="mvout.dram", row_stride="config_st.stride")
    return plain.model_copy(
        update={
            "name": "store_pooled",
            "pragma": "pragma_mvout_pooled",
            "windows": _windows(),
            "copy_fields": fields,
            "max_rows": None,
        }
    )


def _windows() -> CopyWindows:
    axes = {"size": "config_st.pool_size", "stride": "config_st.pool_stride"}
    return CopyWindows(
        rows=WindowAxis(**axes, count="config_st.pool_rows", extent="config_st.out_rows", before="config_st.pool_top"),
        columns=WindowAxis(
            **axes, count="config_st.pool_columns", extent="config_st.out_columns", before="config_st.pool_left"
        ),
        pitch="config_st.pool_out_dim",
        in_bank=True,
    )


def _store_full(dim: int) -> Copy:
    when = {"mvout.full": 1, "config_st.scale": ONE}
    return _store("store_full", "int32", dim, {"full": (when, "dram[n] = sram[n]")})


def parameters_of(accelerator: Accelerator) -> GemminiParameters:
    """The parameters of a document.

    Raises:
        InvalidAccelerator: there is no such configuration; ``field`` is the path in the document.
    """
    try:
        return GemminiParameters.model_validate(accelerator.parameters)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(["parameters", *(str(part) for part in first["loc"])])
        raise InvalidAccelerator(f"{path}: {first['msg']}", field=f"accelerator.{path}") from error


@functools.lru_cache(maxsize=16)  # who has checked a preset finds it again for documents that differ in nothing of it
def _like(parameters: GemminiParameters) -> Accelerator:
    return gemmini_accelerator(parameters)


def check_gemmini(accelerator: Accelerator) -> None:
    """Refuse a document whose stream a Gemmini of its parameters would not understand.

    Names of composed instructions, costs and composites are the document's own; what a word means is Gemmini's.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    parameters = parameters_of(accelerator)
    like = _like(parameters)
    require(accelerator.word_bits == like.word_bits, "word_bits", f"{accelerator.word_bits}; it must be 192")
    require(accelerator.units == like.units, "units", f"they must be {', '.join(like.units)}, in that order")
    kind = accelerator.synchronisation.kind
    require(kind == "hazards", "synchronisation.kind", f"{kind}; a Gemmini's reservation station orders hazards")
    require(not accelerator.tables, "tables", "a Gemmini has no tables; leave them out")
    for index, each in enumerate(accelerator.instructions):
        beside = isinstance(each, Copy) and each.operands
        require(not beside, f"instructions.{index}.operands", "a store of the family gemmini reads no other element")
    require(not accelerator.shares_bus, "dram.shared_by", "the bus of a Gemmini is in its parameters; leave it out")
    _check_memories(accelerator, like)
    known = {part.name: part for part in like.instructions if isinstance(part, Part)}
    unnamed = {part.name: part for part in rocc_encoding.unnamed_loop_fields()}
    if _has_whole_config_norm(accelerator):
        known |= {"config_norm": rocc_encoding.config_norm(compiled=True, whole=True)}
        known.pop("config_norm_inverse")
    for index, instruction in enumerate(accelerator.instructions):
        at = f"instructions.{index}"
        if isinstance(instruction, Copy):
            flat = "a Gemmini's mvin and mvout have rows and columns, and no more dimensions"
            require(not instruction.dimensions, f"{at}.dimensions", flat)
        if isinstance(instruction, Copy) and instruction.blocks is not None:
            _check_blocks(f"{at}.blocks", instruction, instruction.blocks, parameters)
        if isinstance(instruction, Copy) and instruction.windows is not None:
            theirs = "a Gemmini's store finds its windows in config_st; expected those of the preset's store_pooled"
            require(instruction.windows == _windows(), f"{at}.windows", theirs)
        if isinstance(instruction, Copy) and instruction.rows is not None:
            name = instruction.rows.function
            sent = f"a Gemmini's normaliser has its commands in mvout; expected those of the family's store_{name}"
            require(instruction.rows == row_functions()[name], f"{at}.rows", sent)
        if isinstance(instruction, Layer):
            price = "what a loop takes is counted instruction by instruction; leave it out"
            require(instruction.energy is None, f"{at}.energy", price)
        if instruction.sequence:
            continue
        same = known.get(instruction.name)
        require(same is not None, at, f"Gemmini has no instruction {instruction.name}")
        assert same is not None
        _check_word(at, instruction, unnamed.get(instruction.name, same) if _is_unnamed(instruction) else same)
    missing = sorted(set(known) - set(LATER) - {instruction.name for instruction in accelerator.instructions})
    require(not missing, "instructions", f"there is no {', '.join(missing)}")


def _has_whole_config_norm(accelerator: Accelerator) -> bool:
    """Whether its config_norm is for both constants, as documents with normalisations had it before softmax."""
    fields = (field for each in accelerator.instructions if each.name == "config_norm" for field in each.fields)
    normalises = bool(accelerator.parameters.get("normalizations"))
    return normalises and any(field.name == "inverse" and field.value is None for field in fields)


def _is_unnamed(instruction: Instruction) -> bool:
    """Whether it is an instruction of a loop as documents had them before its fields had names."""
    return any(field.name == "rs1_0" for field in instruction.fields)


def _check_blocks(path: str, copy: Copy, blocks: CopyBlocks, parameters: GemminiParameters) -> None:
    most = parameters.wide_words if copy.dram_dtype == "int32" else parameters.wide_columns
    many = f"{blocks.most} blocks are {blocks.most * parameters.dim} columns; a row of a mvin has {most} at most"
    require(blocks.most * parameters.dim <= most, f"{path}.most", many)
    if copy.direction == "store":
        rows = f"a mvout has its blocks {parameters.dim} rows apart, and no field for it"
        require(blocks.apart == parameters.dim, f"{path}.apart", rows)


def _check_memories(accelerator: Accelerator, like: Accelerator) -> None:
    two = "a Gemmini has a scratchpad and an accumulator"
    for index, memory in enumerate(accelerator.memories):
        require(index < len(like.memories), f"memories.{index}", f"{memory.name} is one too many; {two}")
        for key in ("dtype", "shape", "depth", "view_of"):
            found, wanted = _json(getattr(memory, key)), _json(getattr(like.memories[index], key))
            message = f"{memory.name} has {found}; with these parameters it must be {wanted}"
            require(found == wanted, f"memories.{index}.{key}", message)
    require(len(accelerator.memories) == len(like.memories), "memories", two)


def _json(value: Any) -> str:
    return json.dumps(value, default=lambda model: model.model_dump(exclude_defaults=True))


def _check_word(path: str, found: Instruction, wanted: Part) -> None:
    """Whether a word is encoded as Gemmini's: its kind, its unit, and each field."""
    for key in ("kind", "unit", "sticky"):
        here, there = getattr(found, key, False), getattr(wanted, key)
        if here != there:
            require(False, f"{path}.{key}", f"{_json(here)}; of Gemmini's {wanted.name} it is {_json(there)}")
    for index, (here, there) in enumerate(zip(found.fields, wanted.fields, strict=False)):
        if here != there:  # mostly they are equal, and their texts take long
            require(False, f"{path}.fields.{index}", f"{_json(here)}; Gemmini's {wanted.name} has {_json(there)}")
    count, due = len(found.fields), len(wanted.fields)
    require(count == due, f"{path}.fields", f"{count} fields; Gemmini's {wanted.name} has {due}")
