"""What a Gemmini is built with: the generator's parameters that its instructions can notice.

Defaults are those of the generator's default configuration (gemmini ``Configs.scala``, ``GemminiConfigs.scala``).
Elements are int8, accumulators int32, scales fp32.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from accel.accelerator.base import DocumentPart

_KB = 1024
Cycles = Annotated[int, Field(strict=True, ge=0, le=100_000)]
Entries = Annotated[int, Field(strict=True, ge=1, le=1024)]
ACC_BYTES = 4  # of an accumulator element
STATISTICS = 4  # rows whose mean, variance and so on are kept at once (libgemmini NORM_STAT_IDS)


def _power(value: int) -> bool:
    return value & (value - 1) == 0


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
    load_entries: Annotated[Entries, Field(description="loads in the reservation station, instructions")] = 8
    store_entries: Annotated[Entries, Field(description="stores in the reservation station, instructions")] = 4
    execute_entries: Annotated[
        Entries, Field(description="preloads and computes in the reservation station, instructions")
    ] = 16
    memory_latency: Annotated[Cycles, Field(description="from a request to the first byte of its answer, cycles")] = 120
    issue_cycles: Annotated[Cycles, Field(description="between two instructions that the processor sends, cycles")] = 50
    scratchpad_read_delay: Annotated[Cycles, Field(description="from a read of the scratchpad to its data, cycles")] = 4
    accumulator_latency: Annotated[Cycles, Field(description="of an accumulator's read-modify-write, cycles")] = 2
    accumulator_scale_latency: Annotated[
        Cycles, Field(description="of scaling a row of the accumulator on its way out, cycles")
    ] = 8
    mvin_scale_latency: Annotated[Cycles, Field(description="of scaling a row on its way in, cycles")] = 4
    station_latency: Annotated[
        Cycles, Field(description="from the reservation station's entry to the controller, cycles")
    ] = 3
    store_latency: Annotated[
        Cycles, Field(description="queues between a memory's read port and the DMA's writer, cycles")
    ] = 6
    tile_latency: Annotated[Cycles, Field(description="registers inside a tile of the mesh, cycles")] = 0
    mesh_output_delay: Annotated[Cycles, Field(description="registers behind the mesh, cycles")] = 1
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

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("dim", "scratchpad_banks", "accumulator_banks", "dma_bus_bytes", "dma_max_bytes"):
            if not _power(getattr(self, name)):
                raise ValueError(f"{name} must be a power of two; it is {getattr(self, name)}")
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
    def wide_columns(self) -> int:
        """Most int8 columns of a mvin or mvout."""
        return max(self.dma_max_bytes, self.dim)

    @property
    def wide_words(self) -> int:
        """Most int32 columns of a mvin."""
        return max(self.dma_max_bytes // ACC_BYTES, self.dim)
