"""The parts of a document that say how long things take. Times are in cycles."""

from typing import Annotated

from pydantic import Field

from accel.accelerator.base import Count, Model, Name


class Dram(Model):
    """The memory bus and the bursts that go over it."""

    bus_bytes: Annotated[Count, Field(description="bytes a beat")] = 8
    read_latency: Annotated[
        int, Field(strict=True, ge=0, le=100_000, description="cycles from a read request to its first beat")
    ] = 16
    burst_beats: Annotated[Count, Field(le=256, description="beats of the longest burst")] = 256
    burst_boundary_bytes: Annotated[Count, Field(le=1 << 16, description="a burst does not cross these bytes")] = 2048
    alignment_bytes: Annotated[
        Count, Field(le=1 << 20, description="where a tensor may begin: what the compiler's allocator rounds to")
    ] = 4096


class TimingParameters(Model):
    """Times and depths that differ between builds of one design.

    The defaults are those of tvm-vta's Chisel design. What no build changes is in ``accel/isa/<family>``.
    """

    clock_mhz: Annotated[
        float, Field(strict=True, gt=0, le=100_000, allow_inf_nan=False, description="the clock, MHz")
    ] = 100.0
    fetch_burst_instructions: Annotated[
        Count, Field(le=4096, description="instructions that one fetch brings; it waits until all are dispatched")
    ] = 128
    queue_depths: Annotated[
        dict[Name, Annotated[Count, Field(le=1 << 20)]],
        Field(description="instructions that wait for each unit; the fetch stalls at a full queue"),
    ]
    token_limit: Annotated[Count, Field(le=1 << 20, description="where the counter of a token queue stops")] = 255
    reads_in_flight: Annotated[Count, Field(le=256, description="read commands on their way at once")] = 16
    immediate_pass_cycles: Annotated[
        Count, Field(le=1024, description="cycles of the map instruction for each micro-op, with an immediate")
    ] = 1
    two_operand_pass_cycles: Annotated[
        Count, Field(le=1024, description="cycles of the map instruction for each micro-op, with two operands")
    ] = 2
