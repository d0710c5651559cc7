"""The accelerator document of a Gemmini: what follows from its parameters.

Its instructions in the stream are parts; what the compiler calls are sequences of them, such as a load with the
configuration that it needs, which is left out where it holds already.
"""

import struct

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, CopyFields, HardwareLoop, Operand, Operation
from accel.accelerator.memories import Dram, Memory
from accel.accelerator.synchronisation import HazardSync
from accel.isa.gemmini import encoding
from accel.isa.gemmini.parameters import GemminiParameters

_ONE = struct.unpack("<I", struct.pack("<f", 1.0))[0]
_WEIGHT_STATIONARY = 1
_RELU = 1
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
        word_bits=encoding.WORD_BITS,
        memories=(
            Memory(
                name=_SPAD,
                scope="local.scratchpad",
                dtype="int8",
                shape=(dim,),
                depth=parameters.scratchpad_rows,
                ports=parameters.scratchpad_banks,
            ),
            Memory(
                name=_ACC,
                scope="local.accumulator",
                dtype="int32",
                shape=(dim,),
                depth=parameters.accumulator_rows,
                ports=parameters.accumulator_banks,
            ),
        ),
        units=("load", "execute", "store"),
        synchronisation=HazardSync(
            window=parameters.load_entries + parameters.store_entries + parameters.execute_entries
        ),
        instructions=(
            *(encoding.config_ld(state) for state in encoding.LOADS),
            encoding.config_ex(),
            encoding.config_st(),
            encoding.config_norm(),
            *encoding.moves(),
            *encoding.execution(),
            *encoding.asides(),
            *encoding.loops(),
            _load("load_rows", _SPAD, "int8", 0, dim),
            _load("load_accumulators", _ACC, "int32", 2, dim),
            _matmul(dim),
            _store_scaled(dim),
            _store_full(dim),
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


def _load(name: str, memory: str, dtype: str, state: int, dim: int) -> Copy:
    config, move = f"config_ld{state}", encoding.LOADS[state][0]
    when = {f"{config}.scale": _ONE, f"{move}.columns": dim, f"{move}.is_acc": int(memory == _ACC)}
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
        operations=(Operation(name="copy", when=when, does="sram[n] = dram[n]"),),
    )


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
            "B": Operand(memory=_SPAD, shape=(dim, dim), address=f"{preload}.b_row"),
        },
        operations=(Operation(name="accumulate", when=when, does="C[n] += i32(A[k]) * i32(B[k, n])"),),
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


def _store(name: str, dtype: str, dim: int, operations: dict[str, tuple[dict[str, int], str]]) -> Copy:
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
        operations=tuple(
            Operation(name=kind, when={"mvout.columns": dim, "mvout.is_acc": 1} | when, does=does)
            for kind, (when, does) in operations.items()
        ),
    )


def _store_scaled(dim: int) -> Copy:
    scaled = "dram[n] = i8(clip(rint(f32(sram[n]) * scale), {low}, 127.0))"
    return _store(
        "store_scaled",
        "int8",
        dim,
        {
            "scale": ({"config_st.activation": 0}, scaled.format(low="-128.0")),
            "scale_relu": ({"config_st.activation": _RELU}, scaled.format(low="0.0")),
        },
    )


def _store_full(dim: int) -> Copy:
    when = {"mvout.full": 1, "config_st.scale": _ONE}
    return _store("store_full", "int32", dim, {"full": (when, "dram[n] = sram[n]")})
