"""What a whole run moves over the DRAM bus, beside what any schedule must move, and the energy of its parts."""

from collections.abc import Callable

import pydantic
from pydantic import Field

from accel.accelerator.document import Accelerator
from accel.program.program_model import HostStep, Program
from accel.report.documents.end_to_end_documents import EndToEndTime


class ResidentTraffic(pydantic.BaseModel):
    """A result that stays on the chip from launch to launch, and what of its bytes DRAM does not see for it."""

    tensor: str
    launches: list[str] = Field(description="that make it")
    readers: list[str] = Field(description="the launches that read it on the chip")
    memory: str
    elements: int = Field(
        description="of the memory, which it takes until the last of them has read it; fewer than it has where rows "
        "of it are there one after the other"
    )
    stored: bool = Field(description="whether it is in DRAM too, as somebody else reads it there")
    bytes_not_read: int
    bytes_not_written: int


class StripedTraffic(pydantic.BaseModel):
    """Layers that run stripe by stripe, depth first, and what they and all that runs as one with them take so."""

    launches: list[str] = Field(description="the layers; of each there are launches `name#1`, `name#2` and on")
    stripes: int = Field(description="of the last of them")
    cycles: int
    layered_cycles: int = Field(description="layer by layer in the same tiles, with what stays on the chip then")
    dram_bytes: int = Field(description="read and written")
    layered_dram_bytes: int = Field(description="read and written layer by layer")


class DramTraffic(pydantic.BaseModel):
    """Bytes of DRAM that all launches move, beside the compulsory ones.

    Compulsory is what a chip of unlimited memory would move too: each tensor that the run or the host has made, and
    each constant, is read once, as it lies in DRAM; each result that the host reads, or the run gives, is written once,
    without a border around it that is in DRAM before the run.
    """

    bytes_read: int = Field(description="by all launches")
    bytes_written: int = Field(description="by all launches")
    compulsory_read: int
    compulsory_written: int
    ratio: float | None = Field(
        description="read and written over the compulsory ones; below 1 where launches touch parts of tensors only; "
        "null where nothing is compulsory"
    )
    on_chip: list[ResidentTraffic] = Field(
        default_factory=list, description="results that stay on the chip, so that fewer bytes are read and written"
    )
    depth_first: list[StripedTraffic] = Field(
        default_factory=list, description="layers that run stripe by stripe, so that more stays on the chip"
    )


class RunEnergy(pydantic.BaseModel):
    """Picojoules of a run by part, each null where the document does not say what it costs."""

    instructions: float | None = Field(description="of the launches' instructions, by `instructions[].energy`")
    dram: float | None = Field(description="of the bytes that launches move, by `dram.read_energy` and `write_energy`")
    host: float | None = Field(
        description="of the host's cycles in `end_to_end`, its own reads and writes among them, by `host.energy`"
    )
    total: float = Field(description="of the parts that are known")
    unknown: list[str] = Field(description="the parts that no cost is given for, and which `total` lacks")


def traffic_of(
    program: Program, *, bytes_read: int, bytes_written: int, stored: Callable[[str], int] | None = None
) -> DramTraffic:
    """Returns the traffic of a run of the program, whose launches move so many bytes.

    Args:
        program: as it ran.
        bytes_read: by all launches.
        bytes_written: by all launches.
        stored: returns the bytes that launches store of a result, by its name, as within a border; None: all of it.
    """
    written, read, ours = set[str](), set[str](), set[str]()
    for step in program.steps:
        if isinstance(step, HostStep):
            written |= ours.intersection(step.inputs)
            ours.difference_update(step.outputs)
        else:
            read |= set(step.inputs) - ours
            ours.difference_update(step.writes)
            ours.update(step.outputs)
    written |= ours.intersection(program.outputs)
    sizes = {name: segment.nbytes for name, segment in program.segments.items()}
    least_read, least_written = sum(map(sizes.__getitem__, read)), sum(map(stored or sizes.__getitem__, written))
    least = least_read + least_written
    return DramTraffic(
        bytes_read=bytes_read,
        bytes_written=bytes_written,
        compulsory_read=least_read,
        compulsory_written=least_written,
        ratio=(bytes_read + bytes_written) / least if least else None,
        on_chip=[
            ResidentTraffic(
                tensor=each.segment,
                launches=list(each.launches),
                readers=list(each.readers),
                memory=each.memory,
                elements=each.elements,
                stored=each.stored,
                bytes_not_read=each.bytes_not_read,
                bytes_not_written=each.bytes_not_written,
            )
            for each in program.residents
        ],
        depth_first=[
            StripedTraffic(
                launches=list(each.launches),
                stripes=each.stripes,
                cycles=each.cycles,
                layered_cycles=each.layered_cycles,
                dram_bytes=each.dram_bytes,
                layered_dram_bytes=each.layered_dram_bytes,
            )
            for each in program.striped
        ],
    )


def energy_of_run(
    accelerator: Accelerator, instructions: float | None, traffic: DramTraffic, whole: EndToEndTime | None
) -> RunEnergy | None:
    """Returns the energy of a run; None where the document gives no costs at all.

    Args:
        accelerator: the document.
        instructions: picojoules of the launches' instructions, if it states them.
        traffic: what the launches move.
        whole: the end-to-end time; None where timing did not run.
    """
    parts = {
        "instructions": instructions,
        "dram": _dram(accelerator, traffic),
        "host": _host(accelerator, whole),
    }
    known = [value for value in parts.values() if value is not None]
    if not known:
        return None
    return RunEnergy(**parts, total=sum(known), unknown=[name for name, value in parts.items() if value is None])


def _dram(accelerator: Accelerator, traffic: DramTraffic) -> float | None:
    dram = accelerator.dram
    if dram.read_energy is None and dram.write_energy is None:
        return None
    return traffic.bytes_read * (dram.read_energy or 0.0) + traffic.bytes_written * (dram.write_energy or 0.0)


def _host(accelerator: Accelerator, whole: EndToEndTime | None) -> float | None:
    host = accelerator.host
    if host is None or host.energy is None or whole is None:
        return None
    cycles = whole.cycles - whole.parts["accelerator"].cycles
    return cycles * host.clock_mhz / accelerator.clock_mhz * host.energy
