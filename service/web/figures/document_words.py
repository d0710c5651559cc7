"""What pages and the command line say of an accelerator's document in the same words."""

from dataclasses import dataclass

from accel.accelerator.contraction import contraction
from accel.accelerator.document import Accelerator, HazardSync, TokenSync
from accel.errors import InvalidAccelerator


def waiting_words(accelerator: Accelerator) -> str:
    """Returns how the units wait for each other; "they" are the units."""
    match accelerator.synchronisation:
        case TokenSync(limit=limit):
            return f"they run apart and wait for tokens, at most {limit} in a queue"
        case HazardSync(window=window):
            return f"they run apart and wait for addresses, in a window of {window} instructions"
        case _:
            return "they start instructions in the order of the program"


def bus_words(accelerator: Accelerator) -> tuple[str, str]:
    """Returns what the bus to DRAM carries, and how long a read waits for it."""
    dram = accelerator.dram
    return f"{dram.bus_bytes} bytes a cycle", f"{dram.read_latency} cycles to the first"


def host_words(accelerator: Accelerator) -> str:
    """Returns which processor end-to-end times count, and where its numbers are from."""
    host = accelerator.host
    if host is None:
        return "none: it costs nothing in end-to-end times"
    return f"{host.name}, {host.clock_mhz:g} MHz; its numbers are {host.basis}"


@dataclass(frozen=True)
class Contracted:
    """The tile that an accelerator contracts at once.

    Attributes:
        macs: multiply-accumulates in it.
        instruction: contracts it.
        tile: its extents.
    """

    macs: int
    instruction: str
    tile: str


def contracted(accelerator: Accelerator) -> Contracted | str:
    """Returns the tile that the accelerator contracts at once, or why models cannot be compiled for it."""
    try:
        found = contraction(accelerator)
    except InvalidAccelerator as error:
        return error.detail
    extents = " x ".join(map(str, (found.rows, found.out_channels, found.in_channels)))
    return Contracted(found.macs, found.instruction.name, f"{extents} (rows, output channels, input channels)")
