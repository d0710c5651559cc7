"""What a Gemmini is built with: the generator's parameters that its instructions can notice.

Defaults are those of the generator's default configuration (gemmini ``Configs.scala``, ``GemminiConfigs.scala``), by
itself: no processor, and a memory that answers after 30 cycles. Elements are int8, accumulators int32, scales fp32.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from accel.accelerator.base import DocumentPart

_KB = 1024
Cycles = Annotated[int, Field(strict=True, ge=0, le=100_000)]
Entries = Annotated[int, Field(strict=True, ge=1, le=1024)]
LINE_BYTES = 64  # of the L2
MOST_SLOTS = 62  # instructions that are told apart by a bit of a word each
Slots = Annotated[int, Field(strict=True, ge=1, le=MOST_SLOTS)]
ACC_BYTES = 4  # of an accumulator element
STATISTICS = 4  # rows whose mean, variance and so on are kept at once (libgemmini NORM_STAT_IDS)


def _power(value: int) -> bool:
    return value & (value - 1) == 0


class Core(DocumentPart):
    """The processor that sends the instructions."""

    issue_cycles: Annotated[
        int, Field(strict=True, ge=1, le=100_000, description="least cycles between two instructions that it sends")
    ] = 1
    loop_cycles: Annotated[
        Cycles, Field(description="more cycles after a loop_ws or loop_conv_ws, for the code between two tiles")
    ] = 0
    start_cycles: Annotated[
        Cycles, Field(description="of the code before the first instruction of a launch, and behind its last, cycles")
    ] = 0


class MemoryHierarchy(DocumentPart):
    """An L2 cache of lines of 64 bytes, and behind it DRAM, or a last level of caches and then DRAM."""

    l2_bytes: Annotated[int, Field(strict=True, ge=1 * _KB, le=16 * _KB * _KB, description="size of the L2, bytes")] = (
        512 * _KB
    )
    l2_ways: Annotated[int, Field(strict=True, ge=1, le=64, description="lines of the L2 that a place can hold")] = 8
    l2_latency: Annotated[
        Cycles, Field(description="from a request to the first beat of its answer, where the L2 has the line, cycles")
    ] = 30
    l2_bus_bytes: Annotated[
        int, Field(strict=True, ge=1, le=256, description="what the bus of the L2 moves in a cycle, bytes")
    ] = 8
    l2_write_cycles: Annotated[
        Cycles, Field(description="from a write to the next request of a line that shares a set of the L2 with it")
    ] = 30
    misses_in_flight: Annotated[
        int, Field(strict=True, ge=1, le=64, description="lines that the L2 reads from DRAM at once")
    ] = 8
    warm: Annotated[
        bool,
        Field(
            strict=True,
            description="a launch finds in the L2 what fits of what it reads and writes, as where it has just run; "
            "otherwise nothing",
        ),
    ] = True
    llc_bytes: Annotated[
        int,
        Field(strict=True, ge=0, le=16 * _KB * _KB, description="size of a cache between L2 and DRAM, bytes; 0: none"),
    ] = 0
    llc_ways: Annotated[int, Field(strict=True, ge=1, le=64, description="lines that a place of it can hold")] = 8
    llc_latency: Annotated[Cycles, Field(description="of a line from the last level, cycles")] = 50
    llc_line_bytes: Annotated[
        int, Field(strict=True, ge=LINE_BYTES, le=1024, description="of the last level, which reads no less of DRAM")
    ] = LINE_BYTES
    llc_bus_bytes: Annotated[
        int, Field(strict=True, ge=1, le=256, description="what the last level moves in a cycle, to L2 or DRAM, bytes")
    ] = 64
    llc_misses_in_flight: Annotated[
        int,
        Field(
            strict=True,
            ge=1,
            le=64,
            description="lines that the last level reads from DRAM at once; a request of a set of one waits, and all "
            "reads behind it",
        ),
    ] = 8
    dram_latency: Annotated[Cycles, Field(description="of a line from a row of DRAM that is open, cycles")] = 100
    dram_line_cycles: Annotated[
        int, Field(strict=True, ge=1, le=1024, description="that DRAM takes for a line that is read or written, cycles")
    ] = 4
    dram_row_cycles: Annotated[
        Cycles, Field(description="more for a line of another row than the one that is open in its bank, cycles")
    ] = 0
    dram_row_bytes: Annotated[
        int, Field(strict=True, ge=LINE_BYTES, le=64 * _KB, description="of a row of DRAM, in all chips of a rank")
    ] = 8 * _KB
    dram_banks: Annotated[
        int, Field(strict=True, ge=1, le=256, description="rows that can be open at once, one each in a bank")
    ] = 8

    @property
    def llc_sets(self) -> int:
        """Places of the last level; 0: there is none."""
        return self.llc_bytes // (self.llc_line_bytes * self.llc_ways)

    @property
    def sets(self) -> int:
        """Places of the L2."""
        return self.l2_bytes // (LINE_BYTES * self.l2_ways)

    @model_validator(mode="after")
    def _divides(self) -> Self:
        for name in ("llc_line_bytes", "dram_row_bytes"):
            if not _power(getattr(self, name)):
                raise ValueError(f"{name} must be a power of two; it is {getattr(self, name)}")
        for cache, line in (("l2", LINE_BYTES), ("llc", self.llc_line_bytes)):
            size, wanted = getattr(self, f"{cache}_bytes"), line * getattr(self, f"{cache}_ways")
            if size % wanted:
                raise ValueError(f"{cache}_bytes must be a multiple of {cache}_ways lines, {wanted}; it is {size}")
        return self


class GemminiParameters(DocumentPart):
    """One configuration of Gemmini."""

    dim: Annotated[int, Field(strict=True, ge=4, le=64, description="rows and columns of the mesh, elements")] = 16
    scratchpad_bytes: Annotated[
        int, Field(strict=True, ge=1 * _KB, le=16 * _KB * _KB, description="size of the scratchpad, bytes")
    ] = 256 * _KB
    scratchpad_banks: Annotated[
        int, Field(strict=True, ge=1, le=16, description="banks of the scratchpad, one read port each")
    ] = 4
    accumulator_bytes: Annotated[
        int, Field(strict=True, ge=1 * _KB, le=16 * _KB * _KB, description="size of the accumulator, bytes")
    ] = 64 * _KB
    accumulator_banks: Annotated[
        int, Field(strict=True, ge=1, le=16, description="banks of the accumulator, one read port each")
    ] = 2
    dma_bus_bytes: Annotated[
        int, Field(strict=True, ge=1, le=256, description="what the memory bus moves in a cycle, bytes")
    ] = 16
    dma_max_bytes: Annotated[
        int,
        Field(strict=True, ge=16, le=1024, description="longest request to memory, and longest row of a mvin, bytes"),
    ] = 64
    requests_in_flight: Annotated[Entries, Field(description="requests to memory that may be under way, each way")] = 16
    load_entries: Annotated[Slots, Field(description="loads in the reservation station, instructions")] = 8
    store_entries: Annotated[Slots, Field(description="stores in the reservation station, instructions")] = 4
    execute_entries: Annotated[
        Slots, Field(description="preloads and computes in the reservation station, instructions")
    ] = 16
    load_queue: Annotated[Slots, Field(description="instructions that the load controller holds")] = 8
    store_queue: Annotated[Slots, Field(description="instructions that the store controller holds")] = 2
    execute_queue: Annotated[
        int, Field(strict=True, ge=3, le=MOST_SLOTS, description="instructions that the execute controller holds")
    ] = 8
    stores_in_order: Annotated[
        bool,
        Field(
            strict=True,
            description="a store waits in the reservation station until all older ones are complete, as in the "
            "generator of 2025, and not only until they are handed over (ReservationStation.scala ``deps_st``)",
        ),
    ] = False
    memory_latency: Annotated[Cycles, Field(description="from a request to the first beat of its answer, cycles")] = 30
    core: Annotated[
        Core | None, Field(description="the processor that sends the instructions; null: one a cycle, while they fit")
    ] = None
    memory: Annotated[
        MemoryHierarchy | None,
        Field(description="memory behind the accelerator; null: every answer takes memory_latency"),
    ] = None
    scratchpad_read_delay: Annotated[
        int, Field(strict=True, ge=1, le=32, description="from a bank of the scratchpad to its reader, cycles")
    ] = 4
    accumulator_latency: Annotated[
        int, Field(strict=True, ge=1, le=15, description="of an accumulator's read-modify-write, cycles")
    ] = 2
    accumulator_scale_latency: Annotated[
        int, Field(strict=True, ge=1, le=60, description="of scaling a row of the accumulator on its way out, cycles")
    ] = 8
    mvin_scale_latency: Annotated[Cycles, Field(description="of scaling an element on its way in, cycles")] = 4
    mvin_scale_units: Annotated[
        int, Field(strict=True, ge=1, le=64, description="elements that are scaled at once on their way in")
    ] = 4
    tile_latency: Annotated[
        int, Field(strict=True, ge=0, le=3, description="registers inside a tile of the mesh, cycles")
    ] = 0
    mesh_output_delay: Annotated[
        int, Field(strict=True, ge=0, le=16, description="registers behind the mesh, cycles")
    ] = 1
    normalizations: Annotated[
        bool,
        Field(
            strict=True,
            description="stores compute I-BERT's integer functions of accumulators (GemminiConfigs.scala "
            "``has_normalizations``), of which compiled programs use GELU, softmax and layer norm",
        ),
    ] = False
    relu_before_scale: Annotated[
        bool,
        Field(
            strict=True,
            description="a store applies ReLU before the scale, as the RTL does (AccumulatorScale.scala), and not "
            "after it, as libgemmini does; they differ for negative scales only",
        ),
    ] = False
    shift_into_accumulator: Annotated[
        bool,
        Field(
            strict=True,
            description="an output-stationary result is shifted and saturated on its way into the accumulator too, and "
            "not, as in libgemmini, only into the scratchpad",
        ),
    ] = False

    LATENCIES: ClassVar[frozenset[str]] = frozenset({"memory_latency"})
    TIMES: ClassVar[frozenset[str]] = frozenset(
        {
            "requests_in_flight",
            "load_queue",
            "store_queue",
            "execute_queue",
            "memory_latency",
            "core",
            "memory",
            "scratchpad_read_delay",
            "accumulator_latency",
            "accumulator_scale_latency",
            "mvin_scale_latency",
            "tile_latency",
            "mesh_output_delay",
        }
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        powers = ("dim", "scratchpad_banks", "accumulator_banks", "dma_bus_bytes", "dma_max_bytes", "mvin_scale_units")
        for name in powers:
            if not _power(getattr(self, name)):
                raise ValueError(f"{name} must be a power of two; it is {getattr(self, name)}")
        if self.dma_bus_bytes > self.dma_max_bytes:
            raise ValueError(f"dma_bus_bytes is {self.dma_bus_bytes}, more than dma_max_bytes, {self.dma_max_bytes}")
        if self.mvin_scale_units > self.dim:
            raise ValueError(f"mvin_scale_units is {self.mvin_scale_units}, more than dim, {self.dim}")
        for name, row, banks in (
            ("scratchpad_bytes", self.dim, self.scratchpad_banks),
            ("accumulator_bytes", self.dim * ACC_BYTES, self.accumulator_banks),
        ):
            nbytes = getattr(self, name)
            if nbytes % (2 * row * banks):
                raise ValueError(f"{name} must be a multiple of two rows a bank, {2 * row * banks}; it is {nbytes}")
        return self

    @property
    def scratchpad_rows(self) -> int:
        """Rows of ``dim`` elements."""
        return self.scratchpad_bytes // self.dim

    @property
    def accumulator_rows(self) -> int:
        """Rows of ``dim`` elements."""
        return self.accumulator_bytes // (self.dim * ACC_BYTES)

    @property
    def issue_cycles(self) -> int:
        """Least cycles between two instructions that are sent."""
        return 1 if self.core is None else self.core.issue_cycles

    @property
    def answer_latency(self) -> int:
        """Cycles from a request to the first beat of its answer, of a line that the L2 has if there is one."""
        return self.memory_latency if self.memory is None else self.memory.l2_latency

    @property
    def commands_tracked(self) -> int:
        """Loads, and stores, whose rows may be under way at once (LoadController.scala ``nCmds``)."""
        return self.requests_in_flight // self.dim + 1

    @property
    def wide_columns(self) -> int:
        """Most int8 columns of a mvin or mvout."""
        return max(self.dma_max_bytes, self.dim)

    @property
    def wide_words(self) -> int:
        """Most int32 columns of a mvin."""
        return max(self.dma_max_bytes // ACC_BYTES, self.dim)
