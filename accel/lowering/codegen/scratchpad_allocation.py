"""Allocate: every scratchpad buffer gets an address in its own memory, and none is left in host memory.

The function that results takes the DRAM addresses of its tensors, in elements of the memory that they are
copied to, and where memories in banks have their middle and end; its calls hold every field of their instruction.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import ir, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import AnyInstruction, Compute, Copy, Layer, MicroOps
from accel.accelerator.semantics import layer_semantics
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.codegen.microop_tables import MicroOpTable, OperandWalk, dump_tables, microops_of
from accel.lowering.codegen.scratchpad_layout import Place, layout_of
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import constant_value, simplify
from accel.lowering.ir.document_paths import instruction_path, memory_path
from accel.lowering.ir.function_attributes import (
    ADDRESSES,
    CONTEXTS_PRAGMA,
    DEPTHS,
    DRAM_UNITS,
    MICROOPS,
    SIZE_PARAMETERS,
    Depths,
    LayerUse,
    MemorySize,
    ScratchpadBuffer,
    dump_buffers,
    dump_depths,
    dump_sizes,
    map_regions,
)
from accel.lowering.ir.injected_function import (
    InjectedFunction,
    injected_function_of,
)
from accel.lowering.ir.layer_numbers import elements_used, layer_numbers, numbers_used
from accel.lowering.ir.tir_walk import collect, next_site, rewrite_calls
from accel.region.kinds import AnyRegion


def allocate(module: ir.IRModule, target: Target) -> ir.IRModule:
    """Give addresses to the buffers of every region and fill its micro-op table.

    Raises:
        CompileError: a memory that the buffers overflow; the message gives both sizes.
    """
    accelerator = target.accelerator

    def allocated(function: tirx.PrimFunc, _region: AnyRegion) -> tirx.PrimFunc:
        view = injected_function_of(function, accelerator)
        layout = layout_of(view, accelerator)
        places, depths = layout.places, dict(layout.depths)
        rewriter = _Rewriter(accelerator, places, _dram_bases(function, view, accelerator))
        body = rewriter.rewrite(function.body)
        parameters = list(rewriter.dram.values())
        buffers = [_buffer(place, rewriter.uses[variable]) for variable, place in places.items()] + rewriter.taken
        if rewriter.tables:
            site = next_site(body)
            buffers.append(_microops_buffer(rewriter, accelerator, (site, *rewriter.walking), len(parameters)))
            parameters.append(rewriter.microop_base)
            table = _load_microops(rewriter.tables, accelerator, rewriter.microop_base, site)
            body = tirx.SeqStmt([table, body])
        parameters += rewriter.sizes.values()
        for buffer in buffers[len(places) :]:
            depths[buffer.memory] = Depths(buffer.end).of_both(depths.get(buffer.memory, Depths(0)))
        result = tirx.PrimFunc(parameters, body, attrs=function.attrs)
        attributes = {
            MICROOPS: dump_tables(rewriter.tables),
            ADDRESSES: dump_buffers(buffers),
            DEPTHS: dump_depths(depths),
            SIZE_PARAMETERS: dump_sizes(rewriter.sizes),
            DRAM_UNITS: json.dumps([rewriter.units.get(base, 1) for base in rewriter.dram.values()]),
        }
        return result.with_attrs(attributes)

    return map_regions(module, allocated)


@dataclass
class _Uses:
    """The calls that touch a buffer, and the parameters that they copy to it or from it."""

    sites: list[int] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)


def _buffer(place: Place, uses: _Uses) -> ScratchpadBuffer:
    loads, stores = (tuple(dict.fromkeys(found)) for found in (uses.loads, uses.stores))
    sites = tuple(dict.fromkeys(uses.sites))
    lies = place.name, place.memory, place.address, place.elements, place.copies, place.pitch
    return ScratchpadBuffer(*lies, sites, loads, stores, place.origin)


def _taken(layer: Layer, fields: dict[str, Any], site: int | None, rewriter: "_Rewriter") -> list[ScratchpadBuffer]:
    """What an instruction as large as a layer uses of each memory, with the tensors that go through it.

    Raises:
        CompileError: a memory that has not so much.
    """
    accelerator, numbers = rewriter.accelerator, layer_numbers(layer, fields)
    places = [base.name for base in rewriter.dram.values()]
    written = {meaning.written for meaning in layer_semantics(accelerator, layer)}
    found = []
    for name in layer.uses:
        elements = math.ceil(float(elements_used(name, layer, numbers, accelerator)))
        depth = accelerator.memory(name).depth
        if elements > depth:
            needs = f"{layer.name} needs {elements} elements of {name}; it has {depth}"
            raise CompileError(needs, field=memory_path(accelerator, name, "depth"))
        through: dict[bool, list[int]] = {True: [], False: []}
        for operand, each in layer.operands.items():
            buffer = instruction_calls.buffer_of(fields.get(instruction_calls.operand(operand)))
            if buffer is not None and each.memory == name:
                through[operand in written].append(places.index(rewriter.views[buffer].name))
        loads, stores = tuple(dict.fromkeys(through[False])), tuple(dict.fromkeys(through[True]))
        sites = () if site is None else (site,)
        use = LayerUse(layer.name, numbers_used(name, layer, numbers, accelerator))
        found.append(ScratchpadBuffer(f"{layer.name}_{name}", name, 0, 0, 1, 0, sites, loads, stores, use=use))
    return found


def _microops_buffer(
    rewriter: "_Rewriter", accelerator: Accelerator, sites: tuple[int, ...], parameter: int
) -> ScratchpadBuffer:
    layout = microops_of(accelerator)
    assert layout is not None
    entries = max(table.begin + table.size for table in rewriter.tables)
    return ScratchpadBuffer("microops", layout.memory, 0, entries, 1, entries, sites, (parameter,), ())


def _dram_bases(function: tirx.PrimFunc, view: InjectedFunction, accelerator: Accelerator) -> dict[tirx.Var, tirx.Var]:
    """A base address for each tensor in DRAM; one that counts bytes may pass 31 bits."""
    copies = [accelerator.instruction(site.name) for site in view.sites]
    wide = any(isinstance(copy, Copy | Layer) and copy.dram_unit == "byte" for copy in copies)
    dtype = "int64" if wide else "int32"
    return {buffer: tirx.Var(f"{buffer.name}_base", dtype) for buffer in function.params}


def _load_microops(tables: Sequence[MicroOpTable], accelerator: Accelerator, base: tirx.Var, site: int) -> tirx.Stmt:
    layout = microops_of(accelerator)
    assert layout is not None
    memory = accelerator.memory(layout.memory)
    entries = max(table.begin + table.size for table in tables)
    copy = accelerator.copy_instruction(memory.name, "load")
    if copy is None or entries > memory.depth:
        need = f"the region needs {entries} micro-ops; {memory.name} has {memory.depth}"
        raise CompileError(need, field=memory_path(accelerator, memory.name, "depth"))
    names, one = copy.copy_fields, tirx.const(1, "int32")
    count = tirx.const(entries, "int32")
    fields = {names.sram: tirx.const(0, "int32"), names.dram: base}
    sizes = {names.rows: one, names.columns: count, names.row_stride: count}
    fields |= {name: value for name, value in sizes.items() if name is not None}
    return instruction_calls.call(copy.name, fields, site=site)


class _Rewriter:
    """Replace buffers by addresses in every call, collecting the micro-op tables on the way."""

    def __init__(
        self, accelerator: Accelerator, places: Mapping[tirx.Var, Place], dram: dict[tirx.Var, tirx.Var]
    ) -> None:
        self.accelerator = accelerator
        self.places = places
        self.dram = dram
        self.views: dict[tirx.Var, tirx.Var] = dict(dram)
        self.units: dict[tirx.Var, int] = {}
        self.tables: list[MicroOpTable] = []
        self.uses: dict[tirx.Var, _Uses] = {buffer: _Uses() for buffer in places}
        self.walking: list[int] = []
        self.taken: list[ScratchpadBuffer] = []
        self.sizes: dict[MemorySize, tirx.Var] = {}
        self.microop_base = tirx.Var("microops_base", "int32")

    def rewrite(self, body: tirx.Stmt) -> tirx.Stmt:
        for statement in collect(body, tirx.DeclBuffer):
            source = instruction_calls.buffer_of(statement.data)
            self.views[statement.buffer] = self.dram[source]

        def sequence(statement: tirx.SeqStmt, mutator: Any) -> tirx.Stmt:
            gone = (tirx.AllocBuffer, tirx.DeclBuffer)
            kept = [mutator.mutate(child) for child in statement.seq if not isinstance(child, gone)]
            return tirx.SeqStmt(kept) if len(kept) > 1 else kept[0]

        def attribute(statement: tirx.AttrStmt, mutator: Any) -> tirx.Stmt:
            done = statement.attr_key == CONTEXTS_PRAGMA
            return mutator.mutate(statement.body) if done else mutator.default_mutate(statement)

        rules = [(tirx.SeqStmt, sequence), (tirx.AttrStmt, attribute)]
        return structural_mutate(rewrite_calls(body, self._call), rules)

    def _call(self, _number: int, statement: tirx.Evaluate) -> tirx.Stmt:
        name, fields, loops = instruction_calls.parse(statement)
        instruction = self.accelerator.instruction(name)
        self._note_uses(instruction, fields, instruction_calls.site_of(statement))
        if isinstance(instruction, Copy):
            return instruction_calls.call(name, self._copy(instruction, fields))
        if isinstance(instruction, Layer):
            self.taken += _taken(instruction, fields, instruction_calls.site_of(statement), self)
            return instruction_calls.call(name, self._in_dram(instruction, fields))
        if isinstance(instruction, Compute):
            if instruction.microops is not None:
                return instruction_calls.call(name, self._walked(instruction, instruction.microops, fields, loops))
            return instruction_calls.call(name, self._addressed(instruction, fields))
        return statement

    def _note_uses(self, instruction: AnyInstruction, fields: dict[str, Any], site: int | None) -> None:
        """Note which buffers a call touches, and of a copy which parameter lies at its other end."""
        if site is None:
            return
        parameters, moved = list(self.dram.values()), instruction_calls.operand("sram")
        for key, value in fields.items():
            buffer = instruction_calls.buffer_of(value)
            if buffer not in self.uses:
                continue
            self.uses[buffer].sites.append(site)
            if isinstance(instruction, Copy) and key == moved:
                tensor = self.views[instruction_calls.buffer_of(fields[instruction_calls.operand("dram")])]
                ends = self.uses[buffer].loads if instruction.direction == "load" else self.uses[buffer].stores
                ends.append(next(place for place, base in enumerate(parameters) if base.same_as(tensor)))
        if isinstance(instruction, Compute) and instruction.microops is not None:
            self.walking.append(site)

    def _place(self, name: str, fields: dict[str, Any]) -> tuple[Place, Any]:
        """Where an operand's buffer lies, and the index into it; takes both from the fields."""
        place = self.places[instruction_calls.buffer_of(fields.pop(instruction_calls.operand(name)))]
        return place, fields.pop(instruction_calls.index(name))

    def _size(self, size: MemorySize) -> tirx.Var:
        """The parameter that is a size of a memory."""
        if size not in self.sizes:
            self.sizes[size] = tirx.Var(f"{size.memory}_{size.origin}", "int32")
        return self.sizes[size]

    def _address(self, name: str, fields: dict[str, Any]) -> tirx.Expr:
        """An operand's address; takes its buffer and index from the fields."""
        place, index = self._place(name, fields)
        return place.address_of(index, self._size)

    def _copy(self, copy: Copy, fields: dict[str, Any]) -> dict[str, Any]:
        names = copy.copy_fields
        place, index = self._place("sram", fields)
        base = self.views[instruction_calls.buffer_of(fields.pop(instruction_calls.operand("dram")))]
        offset = fields.pop(instruction_calls.index("dram"))
        size = copy.dram_bytes(self.accelerator.memory(copy.memory))
        self.units[base] = size if copy.dram_unit == "element" else 1
        if copy.dram_unit == "byte":
            offset = tirx.Cast("int64", offset) * tirx.const(copy.step_bytes(), "int64")
        elif str(base.ty.dtype) == "int64":
            offset = tirx.Cast("int64", offset)
        addresses = {names.sram: place.address_of(index, self._size), names.dram: simplify(offset + base)}
        for name, operand in copy.operands.items():
            if operand.address is not None and instruction_calls.operand(name) in fields:
                addresses[operand.address] = self._address(name, fields)
        return addresses | fields

    def _in_dram(self, layer: Layer, fields: dict[str, Any]) -> dict[str, Any]:
        """Every operand's address in DRAM; one that the operation does not use is at 0."""
        addresses = {}
        for name, operand in layer.operands.items():
            if operand.dram is None or instruction_calls.operand(name) not in fields:
                continue
            base = self.views[instruction_calls.buffer_of(fields.pop(instruction_calls.operand(name)))]
            memory = self.accelerator.memory(operand.memory)
            unit = layer.unit_bytes(name, memory)
            self.units[base] = unit
            offset = fields.pop(instruction_calls.index(name))
            if str(base.ty.dtype) == "int64":
                offset = tirx.Cast("int64", offset)
            offset = offset * tirx.const(layer.element_bytes(name, memory) // unit, str(base.ty.dtype))
            addresses[operand.dram] = simplify(offset + base)
        return addresses | fields

    def _addressed(self, instruction: Compute, fields: dict[str, Any]) -> dict[str, Any]:
        """Every operand's address in its own field; one that the operation does not use is at 0."""
        addresses = {}
        for name, operand in instruction.operands.items():
            if operand.address is not None and instruction_calls.operand(name) in fields:
                addresses[operand.address] = self._address(name, fields)
        return addresses | fields

    def _walked(
        self, instruction: Compute, microops: MicroOps, fields: dict[str, Any], loops: list[tuple[int, ...]]
    ) -> dict[str, Any]:
        operands = [name for name in instruction.operands if instruction_calls.operand(name) in fields]
        found = {name: self._place(name, fields) for name in operands}
        places = {name: place for name, (place, _) in found.items()}
        bases = {name: constant_value(index) for name, (_, index) in found.items()}
        # contexts that always change together are one
        contexts = {place.lifetime: place for place in places.values() if place.copies > 1}
        walks = {}
        for name, operand in microops.operands.items():
            if operand not in places:
                continue
            place, base = places[operand], bases[operand]
            if base is None:
                varies = f"{instruction.name} walks {place.name} from a base that varies"
                raise CompileError(varies, field=instruction_path(self.accelerator, instruction.name))
            walks[name] = OperandWalk(
                base=place.address + base,
                contexts=tuple(place.pitch if place.lifetime == key else 0 for key in contexts),
                loops=tuple(loop[1 + operands.index(operand)] for loop in loops),
            )
        table = MicroOpTable(
            0, tuple(place.copies for place in contexts.values()), tuple(loop[0] for loop in loops), walks
        )
        begin = self._place_table(table)
        index: Any = 0
        for place in contexts.values():
            index = index * place.copies + place.context
        first = simplify(tirx.const(begin, "int32") + index * table.length)
        return {**fields, microops.begin: first, microops.end: simplify(first + table.length)}

    def _place_table(self, table: MicroOpTable) -> int:
        """Where the table begins; one that is there already is used again."""
        for known in self.tables:
            if replace(known, begin=0) == table:
                return known.begin
        begin = sum(known.size for known in self.tables)
        self.tables.append(replace(table, begin=begin))
        return begin
