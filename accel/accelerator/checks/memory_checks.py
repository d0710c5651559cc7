"""Checks of memories: each holds a tile, and fields are wide enough to address and to walk all of it."""

from collections.abc import Mapping

from accel.accelerator.contraction import contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import span
from accel.accelerator.instructions import Compute, Copy, CopyDimension, Layer
from accel.accelerator.memories import Memory
from accel.accelerator.require import listed, require, require_known, together
from accel.accelerator.semantics import scalar_field, semantics_of


def check_capacity(accelerator: Accelerator) -> None:
    """Refuses memories too small for one tile; operands of one memory lie in it at the same time.

    Raises:
        InvalidAccelerator: ``field`` is the path of the depth.
    """
    gemm = contraction(accelerator)
    if isinstance(gemm.instruction, Layer):
        return  # one at a time goes through each, and what it uses is its own
    with together() as apart:
        for index, memory in enumerate(accelerator.memories):
            tiles = [tile for tile in (gemm.data, gemm.weights, gemm.dst) if tile.memory.holder == memory.name]
            spans = {tile.name: span(gemm.instruction.operands[tile.name], tile.memory) for tile in tiles}
            unit, there = "elements", memory.depth
            if any(tile.memory.name != memory.name for tile in tiles):  # views of it, of other elements
                spans = {tile.name: spans[tile.name] * tile.memory.element_bytes for tile in tiles}
                unit, there = "bytes", memory.bytes
            needed = sum(spans.values())
            each = ", ".join(f"{count} of {name}" for name, count in spans.items())
            at_once = f"{gemm.instruction.name} works on {needed} of {memory.name} at once ({each}): at least {needed}"
            with apart():
                require(needed <= there, f"memories.{index}.depth", f"{there} {unit}; {at_once}")


def check_views(accelerator: Accelerator) -> None:
    """Refuses views of memories that there are not, that are views themselves, and that are not of the same bytes.

    Raises:
        InvalidAccelerator: ``field`` is the path of what is wrong.
    """
    own = {memory.name: memory for memory in accelerator.memories if memory.view_of is None}
    with together() as apart:
        for index, memory in enumerate(accelerator.memories):
            if memory.view_of is not None:
                with apart():
                    _check_view(f"memories.{index}", memory, own, accelerator)


def _check_view(path: str, view: Memory, own: Mapping[str, Memory], accelerator: Accelerator) -> None:
    known = [memory.name for memory in accelerator.memories]
    require_known(str(view.view_of), known, f"{path}.view_of", "memory")
    chain = f"{view.view_of} is a view itself; a view is of a memory that has bytes of its own: {listed(list(own))}"
    require(view.view_of in own, f"{path}.view_of", chain)
    holder = own[view.holder]
    for each, at in ((view, path), (holder, f"memories.{known.index(holder.name)}")):
        packed = f"{each.dtype}; of {holder.name} there is more than one view, and no view has numbers of 48 bits"
        require(each.dtype != "int48", f"{at}.dtype", packed)
        banks = f"{each.banks}; of {holder.name} there is more than one view, and banks are of memories without"
        require(each.banks == 1, f"{at}.banks", banks)
    ports = f"{view.ports}; they are those of {holder.name}, which has {holder.ports}"
    require(view.ports == holder.ports, f"{path}.ports", ports)
    whole = f"{view.depth} elements are {view.bytes} bytes, and {holder.name} has {holder.bytes}"
    even = holder.bytes % view.element_bytes == 0
    expected = f"expected {holder.bytes // view.element_bytes}" if even else "no number of its elements has as many"
    require(view.bytes == holder.bytes, f"{path}.depth", f"{whole}; {expected}")
    for other in accelerator.memories[: known.index(view.name)]:
        if other.holder == holder.name:
            small, large = sorted((view.element_bytes, other.element_bytes))
            uneven = f"an element has {view.element_bytes} bytes, and one of {other.name} {other.element_bytes}"
            expected = "views of the same bytes have elements of which the larger are whole multiples of the smaller"
            require(large % small == 0, f"{path}.shape", f"{uneven}; {expected}")


_PAIRS = (("pad_top", "pad_bottom", "rows"), ("pad_left", "pad_right", "columns"))


def check_addresses(accelerator: Accelerator) -> None:
    """Refuses fields too narrow for their addresses, counts and strides, and copies whose fields contradict each other.

    Raises:
        InvalidAccelerator: ``field`` is the path of the role of the field.
    """
    with together() as apart:
        for index, instruction in enumerate(accelerator.instructions):
            path = f"instructions.{index}"
            if isinstance(instruction, Copy):
                with apart():
                    _check_copy(f"{path}.copy_fields", instruction, accelerator)
                with apart():
                    _check_operands(path, instruction, accelerator)
            if isinstance(instruction, Compute):
                with apart():
                    _check_operands(path, instruction, accelerator)
                with apart():
                    _check_loops(f"{path}.loops", instruction, accelerator)
            if isinstance(instruction, Copy | Compute):
                with apart():
                    _check_scalars(f"{path}.operations", instruction, accelerator)


def _check_reach(path: str, name: str, bits: int, memory: Memory, last: int) -> None:
    wide = max(last.bit_length(), 1)
    short = f"{name} has {bits} bits and reaches {1 << bits} of the {memory.depth} elements of {memory.name}"
    require(last < 1 << bits, path, f"{short}; {wide} bits reach all")


def _check_copy(path: str, copy: Copy, accelerator: Accelerator) -> None:
    memory, fields = accelerator.memory(copy.memory), copy.copy_fields
    _check_reach(f"{path}.sram", fields.sram, accelerator.bits(copy, fields.sram), memory, memory.depth - 1)
    _check_dram(path, copy, accelerator)
    for role in ("rows", "columns"):
        name = getattr(fields, role)
        if name is not None:
            _check_counts(f"{path}.{role}", name, accelerator.bits(copy, name))
    for index, dimension in enumerate(copy.dimensions):
        _check_dimension(f"{path.removesuffix('.copy_fields')}.dimensions.{index}", dimension, copy, accelerator)
    stride = fields.row_stride
    idle = f"{stride} is a stride of rows, and the copy has no field of rows; it needs one, or no row_stride"
    used = fields.rows is not None or copy.windows is not None
    require(stride is None or used, f"{path}.row_stride", idle)
    for before, after, along in _PAIRS:
        for role, other in ((before, after), (after, before)):
            given = getattr(fields, role) is not None
            both = f"{role} without {other}; a copy pads on both sides, or on neither"
            require(not given or getattr(fields, other) is not None, f"{path}.{role}", both)
            none = f"the copy has no field of {along}; padding needs one"
            require(not given or getattr(fields, along) is not None, f"{path}.{role}", none)
            if given:
                _check_padded(path, along, copy, accelerator)


def _check_dimension(path: str, dimension: CopyDimension, copy: Copy, accelerator: Accelerator) -> None:
    """An extent is one at least, and strides can hold an element."""
    bits = accelerator.bits(copy, dimension.extent)
    _check_counts(f"{path}.extent", dimension.extent, bits)
    least = copy.element_stride(accelerator.memory(copy.memory))
    for role, one in (("dram_stride", least), ("sram_stride", 1)):
        name = getattr(dimension, role)
        if name is not None:
            bits = accelerator.bits(copy, name)
            narrow = f"{name} has {bits} bits, and a stride is {one} at least; it needs {one.bit_length()} bits"
            require(one < 1 << bits, f"{path}.{role}", narrow)


def _check_padded(path: str, along: str, copy: Copy, accelerator: Accelerator) -> None:
    """A padded axis has at least an element of zeros and one of DRAM; padded rows come from an image of two columns."""
    fields = copy.copy_fields
    name = getattr(fields, along)
    bits = accelerator.bits(copy, name)
    one = (
        f"{name} has {bits} bits and holds {(1 << bits) - 1}, and the copy pads {along}: two at least; it needs 2 bits"
    )
    require(bits > 1, f"{path}.{along}", one)
    if along == "rows" and fields.row_stride is not None:
        stride = 2 * copy.element_stride(accelerator.memory(copy.memory))
        bits = accelerator.bits(copy, fields.row_stride)
        narrow = f"{fields.row_stride} has {bits} bits, and the copy pads rows, which lie {stride} {copy.dram_unit}s"
        wide = f"{narrow} apart at least; it needs {stride.bit_length()} bits"
        require(stride < 1 << bits, f"{path}.row_stride", wide)


def _check_dram(path: str, copy: Copy, accelerator: Accelerator) -> None:
    """The copy reaches two tensors in DRAM, and bytes that fill the memory; a row stride holds an element's bytes.

    The second tensor lies at the alignment at the earliest.
    """
    memory, fields = accelerator.memory(copy.memory), copy.copy_fields
    element = copy.dram_bytes(memory)
    unit = 1 if copy.dram_unit == "byte" else element
    bits, second = accelerator.bits(copy, fields.dram), -(-accelerator.dram.alignment_bytes // unit)
    reaches = f"{fields.dram} has {bits} bits and counts {copy.dram_unit}s: it reaches {unit << bits} bytes of DRAM"
    short = (
        f"{reaches}, and no two tensors lie in them, {accelerator.dram.alignment_bytes} bytes apart; "
        f"{second.bit_length()} bits reach two"
    )
    require(second < 1 << bits, f"{path}.dram", short)
    whole = memory.depth * element
    less = f"{reaches}, less than the {whole} that fill {memory.name}; {(-(-whole // unit) - 1).bit_length()} bits do"
    require(whole <= unit << bits, f"{path}.dram", less)
    if fields.rows is None:
        return
    together = f"without a row_stride, rows lie a byte apart in DRAM, and an element has {element}; it needs the field"
    spaced = fields.row_stride is not None or copy.dram_unit == "element" or element == 1
    require(spaced, f"{path}.row_stride", together)
    if fields.row_stride is not None:
        bits, least = accelerator.bits(copy, fields.row_stride), element // unit
        narrow = f"{fields.row_stride} has {bits} bits, and a stride is {least} {copy.dram_unit}s at least"
        require(least < 1 << bits, f"{path}.row_stride", f"{narrow}; it needs {least.bit_length()} bits")


def _check_counts(path: str, name: str, bits: int) -> None:
    require(bits > 0, path, f"{name} has 0 bits and can only be 0; it needs 1 bit at least")


def _check_operands(path: str, compute: Compute | Copy, accelerator: Accelerator) -> None:
    for name, operand in compute.operands.items():
        if operand.address is None:
            continue  # it is in micro-ops, which are the family's
        memory = accelerator.memory(operand.memory)
        at, bits = f"{path}.operands.{name}.address", accelerator.bits(compute, operand.address)
        _check_reach(at, operand.address, bits, memory, memory.depth - span(operand, memory))


def _check_loops(path: str, compute: Compute, accelerator: Accelerator) -> None:
    for index, loop in enumerate(compute.loops):
        at, bits = f"{path}.{index}", accelerator.bits(compute, loop.extent)
        _check_counts(f"{at}.extent", loop.extent, bits)
        most = loop.limit or (1 << bits) - 1
        for number, name in enumerate(loop.repeated_in):
            holds = (1 << accelerator.bits(compute, name)) - 1
            short = f"{name} holds {holds} at most, and must hold what {loop.extent} does, up to {most}"
            require(holds >= most, f"{at}.repeated_in.{number}", f"{short}; it needs {most.bit_length()} bits")
        for name, step in loop.steps.items():
            memory = accelerator.memory(compute.operands[name].memory)
            far = f"{step}; {memory.name} has {memory.depth} elements, so a step is less than that, up or down"
            require(abs(step) < memory.depth, f"{at}.steps.{name}", far)


def _check_scalars(path: str, instruction: Copy | Compute, accelerator: Accelerator) -> None:
    for index, meaning in enumerate(semantics_of(accelerator, instruction)):
        for name in meaning.typed.scalars:
            field = accelerator.field(instruction, scalar_field(accelerator, instruction, name))
            empty = f"{name} has 0 bits, and the expression takes a number from it; it needs 1 bit at least"
            require(field.bits > 0, f"{path}.{index}.does", empty)
