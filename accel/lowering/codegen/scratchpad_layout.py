"""Where the buffers of a region lie in their memories, and how the copies of one follow each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute
from accel.accelerator.memories import Memory
from accel.errors import CompileError
from accel.lowering.ir.affine_nest import constant_value, simplify
from accel.lowering.ir.document_paths import memory_path
from accel.lowering.ir.injected_function import InjectedFunction, Loop, buffer_contexts, linear_index
from accel.lowering.ir.tir_walk import scope_of

_HALVES = 2


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: ``copies`` contexts of ``elements`` each, ``pitch`` apart, the first at ``address``."""

    name: str
    memory: str
    address: int
    elements: int
    copies: int
    pitch: int
    loops: tuple[Loop, ...]

    @property
    def lifetime(self) -> tuple[Any, ...]:
        """Equal for buffers whose contexts alternate together."""
        return (self.copies, tuple(loop.variable for loop in self.loops if loop.extent > 1))

    @property
    def context(self) -> tirx.Expr:
        """The context of an iteration, over the variables of the loops."""
        return tirx.floormod(linear_index(self.loops), self.copies)

    def address_of(self, index: Any) -> tirx.Expr:
        """Returns the address of element ``index`` of an iteration's context."""
        context = self.context * self.pitch + self.address if self.copies > 1 else self.address
        return simplify(index + context)


def places_of(view: InjectedFunction, accelerator: Accelerator) -> dict[tirx.Var, Place]:
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
    found: dict[tirx.Var, Place] = {}
    for holder in (memory for memory in accelerator.memories if memory.view_of is None):
        seen = [memory for memory in accelerator.memories if memory.holder == holder.name and sizes[memory.name]]
        places: _Addresses = _side_by_side(sizes, seen, holder, accelerator) if len(seen) > 1 else {}
        for memory in seen:
            buffers = sizes[memory.name]
            if len(seen) == 1:
                halves = _in_halves(buffers, beside, memory)
                places = halves if halves is not None else _in_one_piece(buffers, beside, memory, accelerator)
            for buffer, size in buffers.items():
                address, pitch = places[buffer]
                loops = view.allocations[buffer].loops
                found[buffer] = Place(str(buffer.name), memory.name, address, size.elements, size.copies, pitch, loops)
    return {buffer: found[buffer] for buffer in view.allocations}


@dataclass(frozen=True)
class _Size:
    """What a buffer needs: ``copies`` of ``elements``."""

    elements: int
    copies: int


_Addresses = dict[tirx.Var, tuple[int, int]]
"""Address and pitch of each buffer."""


def _in_one_piece(
    buffers: Mapping[tirx.Var, _Size], beside: set[tirx.Var], memory: Memory, accelerator: Accelerator
) -> _Addresses:
    """One buffer behind the other, and the copies of each together."""
    begin, end, places = 0, memory.depth, {}
    for buffer, size in buffers.items():
        if buffer in beside:
            address = end = end - size.elements * size.copies
        else:
            address, begin = begin, begin + size.elements * size.copies
        places[buffer] = address, size.elements
    needed = begin + memory.depth - end
    if needed > memory.depth:
        raise CompileError(
            f"the buffers need {needed} elements of {memory.name}; it has {memory.depth}",
            field=memory_path(accelerator, memory.name, "depth"),
        )
    return places


def _side_by_side(
    sizes: Mapping[str, Mapping[tirx.Var, _Size]], seen: Sequence[Memory], holder: Memory, accelerator: Accelerator
) -> _Addresses:
    """The buffers of several views of the same bytes, one behind the other.

    Those of the largest elements come first: so each begins at a whole number of its own.
    """
    begin, places = 0, {}
    for memory in sorted(seen, key=lambda memory: -memory.element_bytes):
        for buffer, size in sizes[memory.name].items():
            places[buffer] = begin // memory.element_bytes, size.elements
            begin += size.elements * size.copies * memory.element_bytes
    if begin > holder.bytes:
        raise CompileError(
            f"the buffers need {begin} bytes of {holder.name}; it has {holder.bytes}",
            field=memory_path(accelerator, holder.name, "depth"),
        )
    return places


def _in_halves(buffers: Mapping[tirx.Var, _Size], beside: set[tirx.Var], memory: Memory) -> _Addresses | None:
    """Each context in half of the memory, and what has one context where there is more room.

    None where the memory has no banks, no buffer has two contexts, or they do not fit so.
    """
    copies = {size.copies for size in buffers.values()}
    if memory.banks < _HALVES or memory.banks % _HALVES or copies not in ({_HALVES}, {1, _HALVES}):
        return None
    pitch = memory.depth // _HALVES
    begins, ends, places = [0, pitch], [pitch, memory.depth], {}
    for buffer, size in sorted(buffers.items(), key=lambda one: -one[1].copies):
        halves = (
            range(_HALVES) if size.copies > 1 else [max(range(_HALVES), key=lambda half: ends[half] - begins[half])]
        )
        first = halves[0]
        for half in halves:
            if buffer in beside:
                ends[half] -= size.elements
            else:
                begins[half] += size.elements
        address = ends[first] if buffer in beside else begins[first] - size.elements
        places[buffer] = address, pitch if size.copies > 1 else size.elements
    fits = all(begin <= end for begin, end in zip(begins, ends, strict=True))
    return places if fits else None


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
