"""Where the buffers of a region lie in their memories, and how the copies of one follow each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute
from accel.accelerator.memories import Memory
from accel.errors import CompileError
from accel.lowering.ir.affine_nest import constant_value, simplify
from accel.lowering.ir.document_paths import memory_path
from accel.lowering.ir.function_attributes import Depths, MemorySize, Origin
from accel.lowering.ir.injected_function import InjectedFunction, Loop, buffer_contexts, linear_index
from accel.lowering.ir.tir_walk import scope_of

_HALVES = 2


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: ``copies`` contexts of ``elements`` each, the first at ``address``, counted from ``origin``.

    They are ``pitch`` apart; 0: the middle of the memory.
    """

    name: str
    memory: str
    address: int
    elements: int
    copies: int
    pitch: int
    loops: tuple[Loop, ...]
    origin: Origin = "begin"

    @property
    def lifetime(self) -> tuple[Any, ...]:
        """Equal for buffers whose contexts alternate together."""
        return (self.copies, tuple(loop.variable for loop in self.loops if loop.extent > 1))

    @property
    def context(self) -> tirx.Expr:
        """The context of an iteration, over the variables of the loops."""
        return tirx.floormod(linear_index(self.loops), self.copies)

    def address_of(self, index: Any, size: Callable[[MemorySize], tirx.Expr]) -> tirx.Expr:
        """Returns the address of element ``index`` of an iteration's context, by sizes of memories."""
        address: Any = self.address
        if self.origin != "begin":
            address = address + size(MemorySize(self.memory, self.origin))
        if self.copies > 1:
            address = self.context * (self.pitch or size(MemorySize(self.memory, "middle"))) + address
        return simplify(index + address)


@dataclass(frozen=True)
class Layout:
    """Where each buffer lies, which is so in memories of ``depths``."""

    places: Mapping[tirx.Var, Place]
    depths: Mapping[str, Depths]


def layout_of(view: InjectedFunction, accelerator: Accelerator) -> Layout:
    """Returns where each buffer lies.

    A bank serves one access at a time. So of the buffers that an instruction reads together the first lies at the
    beginning of a memory in banks and the others at its end; and of two contexts, of which one is loaded or stored
    while the other is worked on, each has half of the memory to itself, where there is room for that.

    Raises:
        CompileError: a memory that the buffers overflow; the message gives both sizes.
    """
    beside = _read_beside_others(view, accelerator)
    sizes: dict[str, dict[tirx.Var, _Size]] = {memory.name: {} for memory in accelerator.memories}
    for buffer, allocation in view.allocations.items():
        own, scalars = accelerator.memory_of_scope(scope_of(buffer)), constant_value(buffer.shape[0])
        if own is None or scalars is None or scalars % own.element_count:
            raise CompileError(
                f"{buffer.name} is no whole number of elements of a scratchpad", field="accelerator.memories"
            )
        sizes[own.name][buffer] = _Size(scalars // own.element_count, buffer_contexts(allocation, view))
    found, depths = dict[tirx.Var, Place](), dict[str, Depths]()
    for holder in (memory for memory in accelerator.memories if memory.view_of is None):
        seen = [memory for memory in accelerator.memories if memory.holder == holder.name and sizes[memory.name]]
        placed = _side_by_side(sizes, seen, holder, accelerator) if len(seen) > 1 else None
        for memory in seen:
            spots, room = placed[memory.name] if placed else _spots(sizes[memory.name], beside, memory, accelerator)
            if _is_walked(view, memory, accelerator):  # whose micro-ops hold numbers
                spots, room = {buffer: spot.fixed(memory) for buffer, spot in spots.items()}, _fixed_room(room, memory)
            depths[memory.name] = room
            for buffer, size in sizes[memory.name].items():
                spot, loops = spots[buffer], view.allocations[buffer].loops
                found[buffer] = Place(
                    str(buffer.name), memory.name, spot.address, size.elements, size.copies, spot.pitch, loops,
                    spot.origin,
                )  # fmt: skip
    return Layout({buffer: found[buffer] for buffer in view.allocations}, depths)


@dataclass(frozen=True)
class _Size:
    """What a buffer needs: ``copies`` of ``elements``."""

    elements: int
    copies: int


@dataclass(frozen=True)
class _Spot:
    """Address and pitch of a buffer, as those of a :class:`Place`."""

    origin: Origin
    address: int
    pitch: int

    def fixed(self, memory: Memory) -> "_Spot":
        """Returns it with numbers alone."""
        middle = memory.depth // _HALVES
        begin = {"begin": 0, "middle": middle, "end": memory.depth}[self.origin]
        return _Spot("begin", begin + self.address, self.pitch or middle)


_Spots = dict[tirx.Var, _Spot]


def _is_walked(view: InjectedFunction, memory: Memory, accelerator: Accelerator) -> bool:
    """Whether micro-ops hold addresses of a memory in banks, which depend on its depth."""
    if memory.banks == 1:
        return False
    called = (accelerator.instruction(site.name) for site in view.sites)
    walking = (each for each in called if isinstance(each, Compute) and each.microops is not None)
    return any(operand.memory == memory.name for each in walking for operand in each.operands.values())


def _fixed_room(room: Depths, memory: Memory) -> Depths:
    return room.of_both(Depths(memory.depth, memory.depth + 1))


def _spots(
    buffers: Mapping[tirx.Var, _Size], beside: set[tirx.Var], memory: Memory, accelerator: Accelerator
) -> tuple[_Spots, Depths]:
    """Where buffers lie in a memory, and of which depths.

    Raises:
        CompileError: they need more than there is.
    """
    copies = {size.copies for size in buffers.values()}
    halves = None
    if memory.banks % _HALVES == 0 and copies in ({_HALVES}, {1, _HALVES}):
        halves = _in_halves(buffers, beside)
        if memory.depth >= halves[1]:
            return halves[0], Depths(halves[1])
    spots, needed = _in_one_piece(buffers, beside)
    if needed > memory.depth:
        raise CompileError(
            f"the buffers need {needed} elements of {memory.name}; it has {memory.depth}",
            field=memory_path(accelerator, memory.name, "depth"),
        )
    return spots, Depths(needed, None if halves is None else halves[1])


def _side_by_side(
    sizes: Mapping[str, Mapping[tirx.Var, _Size]], seen: Sequence[Memory], holder: Memory, accelerator: Accelerator
) -> dict[str, tuple[_Spots, Depths]]:
    """Where the buffers of several views of the same bytes lie, one behind the other, and of which depths, by view.

    Those of the largest elements come first: so each begins at a whole number of its own.

    Raises:
        CompileError: they need more than there is.
    """
    begin, spots = 0, {memory.name: _Spots() for memory in seen}
    for memory in sorted(seen, key=lambda memory: -memory.element_bytes):
        for buffer, size in sizes[memory.name].items():
            spots[memory.name][buffer] = _Spot("begin", begin // memory.element_bytes, size.elements)
            begin += size.elements * size.copies * memory.element_bytes
    if begin > holder.bytes:
        raise CompileError(
            f"the buffers need {begin} bytes of {holder.name}; it has {holder.bytes}",
            field=memory_path(accelerator, holder.name, "depth"),
        )
    return {memory.name: (spots[memory.name], Depths(-(-begin // memory.element_bytes))) for memory in seen}


def _in_one_piece(buffers: Mapping[tirx.Var, _Size], beside: set[tirx.Var]) -> tuple[_Spots, int]:
    """One buffer behind the other, and the copies of each together; and the elements that they need."""
    begin, end, spots = 0, 0, _Spots()
    for buffer, size in buffers.items():
        if buffer in beside:
            end += size.elements * size.copies
            spots[buffer] = _Spot("end", -end, size.elements)
        else:
            spots[buffer] = _Spot("begin", begin, size.elements)
            begin += size.elements * size.copies
    return spots, begin + end


def _in_halves(buffers: Mapping[tirx.Var, _Size], beside: set[tirx.Var]) -> tuple[_Spots, int]:
    """Each context in half of the memory, and what has one context where there is more room; and the depth for that."""
    begins, ends, spots = [0] * _HALVES, [0] * _HALVES, _Spots()
    for buffer, size in sorted(buffers.items(), key=lambda one: -one[1].copies):
        fullest = [begin + end for begin, end in zip(begins, ends, strict=True)]
        halves = range(_HALVES) if size.copies > 1 else [fullest.index(min(fullest))]
        first = halves[0]
        for half in halves:
            (ends if buffer in beside else begins)[half] += size.elements
        pitch = 0 if size.copies > 1 else size.elements
        if buffer in beside:
            spots[buffer] = _Spot(("middle", "end")[first], -ends[first], pitch)
        else:
            spots[buffer] = _Spot(("begin", "middle")[first], begins[first] - size.elements, pitch)
    first, second = (begin + end for begin, end in zip(begins, ends, strict=True))
    return spots, max(_HALVES * first, _HALVES * second - 1)  # the second half is the larger one


def _read_beside_others(view: InjectedFunction, accelerator: Accelerator) -> set[tirx.Var]:
    """The buffers of memories in banks that a compute instruction uses beside one that stands before them."""
    banked = {memory.scope for memory in accelerator.memories if memory.banks > 1}
    first, beside = set[tirx.Var](), set[tirx.Var]()
    for site in view.sites:
        if not isinstance(accelerator.instruction(site.name), Compute):
            continue
        met: set[str] = set()
        for buffer in dict.fromkeys(site.buffers):
            scope = scope_of(buffer)
            if scope in banked and scope in met and buffer not in first:
                beside.add(buffer)
            elif scope in banked and buffer not in beside:
                first.add(buffer)
                met.add(scope)
    return beside
