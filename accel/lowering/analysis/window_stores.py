"""What of a pooling a store of windows can take, and what of it at once."""

from collections.abc import Iterator

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, CopyWindows, takes_windows
from accel.lowering.analysis.capabilities import Capabilities
from accel.region.epilogue import Epilogue
from accel.region.shapes import SlidingWindow, StoredWindows


def has_windows(accelerator: Accelerator) -> bool:
    """Whether any store takes the largest of windows."""
    return any(takes_windows(each) for each in accelerator.instructions)


def store_of_windows(epilogue: Epilogue, capabilities: Capabilities) -> Copy | None:
    """The store that takes the largest of windows of accumulators, each of which leaves as an epilogue says."""
    answer = capabilities.store_of_windows(epilogue.result, epilogue.scaling)
    copy = None if answer.meaning is None else answer.meaning.instruction
    return copy if isinstance(copy, Copy) else None


def window_mismatch(window: SlidingWindow, copy: Copy, accelerator: Accelerator) -> str:
    """Why a store does not take windows of a shape; empty where it does."""
    assert copy.windows is not None
    if window.dilation != (1, 1):
        return f"{copy.name} takes windows without dilation"
    return _contradiction(_of_shape(window, copy.windows), copy, accelerator)


def tile_mismatch(
    window: SlidingWindow, size: tuple[int, int], pitch: int, copy: Copy, accelerator: Accelerator
) -> str:
    """Why a store does not take so many rows and columns of windows, whose rows are ``pitch`` windows apart in DRAM."""
    assert copy.windows is not None
    fields = [(copy.windows.pitch, pitch)]
    for axis, count, kernel, stride in zip(
        (copy.windows.rows, copy.windows.columns), size, window.kernel, window.strides, strict=True
    ):
        fields += [(axis.count, count), (axis.extent, (count - 1) * stride + kernel)]
    return _contradiction(fields, copy, accelerator)


def part_mismatch(
    pooled: StoredWindows, size: tuple[int, int], image: tuple[int, int], copy: Copy, accelerator: Accelerator
) -> str:
    """Why a store does not take so many rows and columns of windows from the part of an image that they lie on."""
    assert copy.windows is not None
    fields = [(copy.windows.pitch, pooled.width)]
    for axis, (names, count) in enumerate(zip((copy.windows.rows, copy.windows.columns), size, strict=True)):
        fields += [(names.count, count), (names.extent, pooled.extent(axis, count, image[axis]))]
    return _contradiction(fields, copy, accelerator)


def image_room(copy: Copy, accelerator: Accelerator) -> int:
    """The most elements that lie before the end of an image in its bank, or in its memory."""
    assert copy.windows is not None
    memory = accelerator.memory(copy.memory)
    return memory.depth // memory.banks if copy.windows.in_bank else memory.depth


def _of_shape(window: SlidingWindow, fields: CopyWindows) -> Iterator[tuple[str, int]]:
    for axis, size, stride in zip((fields.rows, fields.columns), window.kernel, window.strides, strict=True):
        yield axis.size, size
        yield axis.stride, stride


def _contradiction(
    fields: "list[tuple[str, int]] | Iterator[tuple[str, int]]", copy: Copy, accelerator: Accelerator
) -> str:
    """Why fields cannot hold their numbers, of which one field may be given several; empty where they can."""
    held: dict[str, int] = {}
    for name, value in fields:
        most = (1 << accelerator.bits(copy, name)) - 1
        if held.setdefault(name, value) != value:
            return f"{copy.name} takes square windows, as far apart both ways"
        if value > most:
            return f"{name} of {copy.name} holds {most} at most, and would be {value}"
    return ""
