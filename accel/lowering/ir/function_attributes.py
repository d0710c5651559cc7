"""What the stages write on functions for the stages after them.

Everything a later stage needs travels in the IRModule itself, as attributes holding JSON, so that a dump shows
it and a stage can be run alone.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import TypeAdapter
from tvm import ir, tirx

from accel.accelerator.checks import document_checks
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Layer
from accel.lowering.ir.layer_numbers import elements_used
from accel.region.epilogue import Epilogue
from accel.region.kinds import SHAPES, AnyRegion, Region, VectorRegion, Views
from accel.region.shapes import RegionShape, Sides
from accel.region.tilings import Tiling
from accel.region.vector_program import VectorProgram

REGION = "cyclops.region"
HOST_REASON = "cyclops.host_reason"
JOINED = "cyclops.joined"  # on a composite: the place of its result among the operands of the one that takes it in
LAUNCHES = "cyclops.launches"
VECTOR_REASONS = "cyclops.vector_reasons"  # on main: why no vector program computes a variable, by its name, as JSON
ATTENTION = "cyclops.attention"  # on main: how attention was placed, as JSON
STORED = "cyclops.stored"  # on main: operators that only move data, which the stores of launches do
UNMOVED = "cyclops.unmoved"  # on main: why the host moves a variable's elements, by its name, as JSON
MICROOPS = "cyclops.microops"
ADDRESSES = "cyclops.addresses"
NESTS = "cyclops.nests"
DRAM_UNITS = "cyclops.dram_units"
DEPTHS = "cyclops.depths"  # the depths of memories for which the buffers lie as they do, as JSON
SIZE_PARAMETERS = "cyclops.sizes"  # the sizes that a function takes behind addresses, as JSON
CONTEXTS_PRAGMA = document_checks.CONTEXTS_PRAGMA
FIRST_PRAGMA = "pragma_first"
"""Around the nest of a sum: its value says in which iterations of the loops around it the sum begins."""


@dataclass(frozen=True)
class VectorValues:
    """Variables of the graph that a vector program stands for: all that it ``computes``, and those at its ends.

    ``operands`` are in the order of the call's arguments, empty for a constant; ``results`` in that of what it leaves.
    """

    computes: tuple[str, ...]
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class LaunchInfo:
    """What the report says of one call of a region: the layer's name, operator, model nodes and MACs.

    ``operations`` are all arithmetic of the model in it, two of each multiply-accumulate.

    ``host_reason`` says why the host finishes what the region begins; empty where it does not. ``host_nodes`` are those
    that it has a part in then; none where that is all of them. ``border`` is what is in DRAM around its result before
    the program runs; None where nothing is. ``values`` are a vector program's.
    """

    name: str
    op: str
    nodes: tuple[str, ...]
    macs: int
    host_reason: str = ""
    host_nodes: tuple[str, ...] = ()
    border: int | None = None
    values: VectorValues | None = None
    operations: int = 0


@dataclass(frozen=True)
class AttentionCosts:
    """What programs take alone: their cycles, None where these cannot be said, and the bytes of DRAM that they move."""

    cycles: int | None
    dram_bytes: int


@dataclass(frozen=True)
class AttentionChoice:
    """Attention of the graph: the variables that it computes, in their order, and whether it goes over blocks of keys.

    ``fused`` is what it takes so, and ``unfused`` what it takes otherwise; with neighbours of which only the one or the
    other has a part. ``on_host``: otherwise the host would have a part of it.
    """

    variables: tuple[str, ...]
    chosen: bool
    fused: AttentionCosts
    unfused: AttentionCosts
    on_host: bool


Origin = Literal["begin", "middle", "end"]
"""What of a memory addresses are counted from; the middle is at half of its depth, rounded down."""


@dataclass(frozen=True)
class MemorySize:
    """An address that depends on how deep a memory is: its middle, or its end."""

    memory: str
    origin: Origin

    def of(self, accelerator: Accelerator) -> int:
        """Returns the address on ``accelerator``, in elements."""
        depth = accelerator.memory(self.memory).depth
        return {"begin": 0, "middle": depth // 2, "end": depth}[self.origin]


@dataclass(frozen=True)
class LayerUse:
    """What an instruction as large as a layer takes of a memory, with ``numbers`` in its fields."""

    layer: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class ScratchpadBuffer:
    """Where a buffer of a region lies on the chip, and who uses it.

    Attributes:
        name: as the TIR calls it.
        memory: its memory.
        address: its first element there, counted from ``origin``.
        elements: of one copy.
        copies: contexts, for tiles that overlap in time.
        pitch: elements from the beginning of one copy to that of the next; 0: the memory's middle.
        sites: the calls that touch it.
        loads: places among the function's parameters of the tensors that are copied to it.
        stores: of those that it is copied to.
        use: of an instruction that may take more of a larger memory; ``elements`` and ``pitch`` follow from it.
    """

    name: str
    memory: str
    address: int
    elements: int
    copies: int
    pitch: int
    sites: tuple[int, ...]
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    origin: Origin = "begin"
    use: LayerUse | None = None

    @property
    def end(self) -> int:
        """The element behind its last copy."""
        return self.address + self.pitch * (self.copies - 1) + self.elements

    def placed(self, accelerator: Accelerator) -> "ScratchpadBuffer":
        """Returns it with numbers alone, as it lies in the memories of ``accelerator``."""
        if self.use is not None:
            layer = accelerator.instruction(self.use.layer)
            assert isinstance(layer, Layer)
            elements = math.ceil(float(elements_used(self.memory, layer, self.use.numbers, accelerator)))
            return replace(self, elements=elements, pitch=elements, use=None)
        begin, middle = (MemorySize(self.memory, origin).of(accelerator) for origin in (self.origin, "middle"))
        return replace(self, address=begin + self.address, origin="begin", pitch=self.pitch or middle)


@dataclass(frozen=True)
class Depths:
    """Depths of a memory for which buffers lie as they do: at least ``least``, and less than ``below`` if any."""

    least: int
    below: int | None = None

    def of_both(self, other: "Depths") -> "Depths":
        """Returns the depths that are in both."""
        below = [each.below for each in (self, other) if each.below is not None]
        return Depths(max(self.least, other.least), min(below, default=None))


def lie_in(buffers: Iterable[ScratchpadBuffer], depths: Mapping[str, Depths], accelerator: Accelerator) -> bool:
    """Returns whether buffers lie so in the memories of ``accelerator``, as they do in memories of ``depths``."""
    found = [(each, accelerator.memory(name).depth) for name, each in depths.items()]
    if not all(each.least <= depth and (each.below is None or depth < each.below) for each, depth in found):
        return False
    taken = [buffer.placed(accelerator) for buffer in buffers if buffer.use is not None]
    return all(each.end <= accelerator.memory(each.memory).depth for each in taken)


@dataclass(frozen=True)
class _StoredRegion:
    """A region as it is written; ``kind`` says what ``shape`` is. A vector program is nothing else."""

    kind: str
    shape: dict[str, Any]
    epilogue: Epilogue | None = None
    tiling: Tiling | None = None
    host_reason: str = ""
    border: Sides = (0, 0, 0, 0)
    views: Views = ()


_REGION = TypeAdapter(_StoredRegion)
FLOAT_TEXT = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")
_SHAPES: dict[str, TypeAdapter[RegionShape]] = {shape.kind: TypeAdapter(shape) for shape in SHAPES}
_PROGRAM = TypeAdapter(VectorProgram)
_CHOICES = TypeAdapter(list[AttentionChoice])
_LAUNCHES = TypeAdapter(dict[str, LaunchInfo])
_BUFFERS = TypeAdapter(tuple[ScratchpadBuffer, ...])
_DEPTHS = TypeAdapter(dict[str, Depths])
_SIZES = TypeAdapter(tuple[MemorySize, ...])


def dump_region(region: AnyRegion) -> str:
    """A region as JSON, for a function's attribute."""
    if isinstance(region, VectorRegion):
        stored = _StoredRegion(region.shape.kind, _program_fields(region.shape), views=region.views)
    else:
        shape, parts = _SHAPES[region.shape.kind].dump_python(region.shape), (region.epilogue, region.tiling)
        stored = _StoredRegion(region.shape.kind, shape, *parts, region.host_reason, region.border, region.views)
    return _REGION.dump_json(stored, exclude=None if region.views else {"views"}).decode()


def _program_fields(program: VectorProgram) -> dict[str, Any]:
    """The fields of a program, without those that say nothing: of no stream, no turned loops, no loads again."""
    kept = {"stream": program.stream is not None, "turned": bool(program.turned), "loads_again": program.loads_again}
    fields: dict[str, Any] = _PROGRAM.dump_python(program, exclude={name for name, said in kept.items() if not said})
    return fields


def without_numbers(region: AnyRegion) -> str:
    """A key, the same for regions that differ in numbers alone, and in shapes of buffers that leave each address."""
    return FLOAT_TEXT.sub("0.0", dump_region(replace(region, views=flat_views(region.views))))


def flat_views(views: Views) -> Views:
    """Returns views in which each element has the address that it has in those, whatever the shapes of buffers."""
    flat = [None if view is None or view.is_plain else view.flat for view in views]
    while flat and flat[-1] is None:
        flat.pop()
    return tuple(flat)


def region_of(function: ir.BaseFunc) -> AnyRegion | None:
    """The region that a composite or a PrimFunc is marked as, or None for host functions."""
    if function.attrs is None or REGION not in function.attrs:
        return None
    return load_region(str(function.attrs[REGION]))


def load_region(text: str) -> AnyRegion:
    """The inverse of ``dump_region``."""
    stored = _REGION.validate_json(text)
    if stored.epilogue is None or stored.tiling is None:
        return VectorRegion(_PROGRAM.validate_python(stored.shape), stored.views)
    shape = _SHAPES[stored.kind].validate_python(stored.shape)
    return Region(shape, stored.epilogue, stored.tiling, stored.host_reason, stored.border, stored.views)


def dump_choices(choices: Sequence[AttentionChoice]) -> str:
    """Returns how attention was placed, as JSON."""
    return _CHOICES.dump_json(list(choices)).decode()


def load_choices(text: str) -> list[AttentionChoice]:
    """The inverse of ``dump_choices``."""
    return _CHOICES.validate_json(text)


def dump_launches(launches: dict[str, LaunchInfo]) -> str:
    """Launches by the name of the variable that the call is bound to, as JSON."""
    return _LAUNCHES.dump_json(launches).decode()


def load_launches(text: str) -> dict[str, LaunchInfo]:
    """The inverse of ``dump_launches``."""
    return _LAUNCHES.validate_json(text)


def launched_operations(module: ir.IRModule) -> int:
    """Returns the arithmetic of all launches of a packed module, in operations."""
    return sum(info.operations for info in load_launches(str(module["main"].attrs[LAUNCHES])).values())


def dump_buffers(buffers: Iterable[ScratchpadBuffer]) -> str:
    """Buffers as JSON, for a function's attribute."""
    return _BUFFERS.dump_json(tuple(buffers)).decode()


def load_buffers(text: str) -> tuple[ScratchpadBuffer, ...]:
    """The inverse of ``dump_buffers``."""
    return _BUFFERS.validate_json(text)


def dump_depths(depths: Mapping[str, Depths]) -> str:
    """Depths of memories as JSON, for a function's attribute."""
    return _DEPTHS.dump_json(dict(depths)).decode()


def load_depths(text: str) -> dict[str, Depths]:
    """The inverse of ``dump_depths``."""
    return _DEPTHS.validate_json(text)


def dump_sizes(sizes: Iterable[MemorySize]) -> str:
    """Sizes of memories as JSON, for a function's attribute."""
    return _SIZES.dump_json(tuple(sizes)).decode()


def load_sizes(text: str) -> tuple[MemorySize, ...]:
    """The inverse of ``dump_sizes``."""
    return _SIZES.validate_json(text)


def region_functions(module: ir.IRModule) -> dict[ir.GlobalVar, tirx.PrimFunc]:
    """The PrimFuncs that the accelerator runs, in the order of their names."""
    functions = sorted(module.functions.items(), key=lambda item: str(item[0].name_hint))
    return {
        variable: function
        for variable, function in functions
        if isinstance(function, tirx.PrimFunc) and function.attrs is not None and REGION in function.attrs
    }


def map_regions(module: ir.IRModule, transform: Callable[[tirx.PrimFunc, AnyRegion], tirx.PrimFunc]) -> ir.IRModule:
    """Apply ``transform`` to every region's PrimFunc."""
    result = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for variable, function in region_functions(module).items():
        region = region_of(function)
        assert region is not None
        result.update_func(variable, transform(function, region))
    return result
