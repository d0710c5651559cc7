"""Vector programs as regions: statements of one instruction each, in loops over tiles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx

from accel.accelerator.contraction import Contraction
from accel.accelerator.instructions import Copy
from accel.expression.syntax_tree import Access, Scalar, Statement
from accel.expression.unify import COMBINED, tvm_store, tvm_value
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.affine_nest import in_loops
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.kinds.lanewise.lanewise_schedule import scratchpad_buffer
from accel.lowering.kinds.program_operations import ProgramOperations, types_of
from accel.lowering.kinds.region_kind import UsedOperation
from accel.region.kinds import Role, VectorRegion
from accel.region.vector_program import UNIT, VectorProgram, axis_name


class VectorKind:
    """Regions of statements; no composite of the graph is one, see ``accel/lowering/vector``."""

    shape = VectorProgram

    def expression(self, region: VectorRegion, _gemm: Contraction) -> tirx.PrimFunc:
        """What a region computes, as tensor expressions; its parameters are the operands, then the results."""
        program = region.shape
        operands = program.in_dram[: len(program.in_dram) - program.results]
        parameters = {
            tensor.name: te.placeholder(program.parameter_shape(tensor), tensor.dtype, tensor.name)
            for tensor in operands
        }
        known: dict[str, te.Tensor] = dict(parameters)
        for statement in program.parsed:
            known[statement.target.name] = _computed(program, statement, known)
        results = [known[tensor.name] for tensor in program.in_dram[len(operands) :]]
        return te.create_prim_func([*parameters.values(), *results])

    def schedule(self, function: tirx.PrimFunc, region: VectorRegion, capabilities: Capabilities) -> tirx.PrimFunc:
        """The function in tiles, with its buffers in the accelerator's scopes and its nests under pragmas."""
        return function.with_body(_Tiles(function, region.shape, capabilities).body())

    def instructions(self, region: VectorRegion, capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order; an operation may come more than once."""
        operations = capabilities.target.derived(ProgramOperations)
        for statement in region.shape.parsed:
            choice = operations.first(statement, region.shape)
            role: Role = "compute"
            if isinstance(choice.instruction, Copy):
                role = "load data" if choice.instruction.direction == "load" else "store"
            yield UsedOperation(role, choice.instruction, choice.operation)

    def host_layout(self, _region: VectorRegion) -> list[str]:
        """Nothing: its tensors lie as the model has them."""
        return []


def _computed(program: VectorProgram, statement: Statement, known: Mapping[str, te.Tensor]) -> te.Tensor:
    """A statement over whole tensors."""
    target = program.tensor(statement.target.name)
    shape = program.parameter_shape(target)
    reduced = {name: te.reduce_axis((0, program.extents[int(name[1:])]), name) for name in statement.reduced}

    def element(*indices: Any) -> Any:
        own = zip(target.axes, indices, strict=False)
        at = {axis_name(axis): index for axis, index in own if axis != UNIT} | reduced

        def leaf(access: Access | Scalar, _dtype: str) -> Any:
            tensor = program.tensor(access.name)
            if isinstance(access, Access) and access in statement.looked_up:
                return known[access.name][access.indices]
            places = [0 if axis == UNIT else at[axis_name(axis)] for axis in tensor.axes]
            return known[access.name][tuple(places) or (0,)]

        value = tvm_value(statement, types_of(statement, program), leaf)
        return value if not reduced else _REDUCTIONS[str(statement.combiner)](value, list(reduced.values()))

    made = te.compute(shape, element, name=statement.target.name)
    if not reduced:
        return made
    before = known[statement.target.name]
    combined = COMBINED[str(statement.combiner)]
    return te.compute(shape, lambda *at: combined(before[at], made[at]), name=statement.target.name)


_REDUCTIONS = {"+": te.sum, "max": te.max, "min": te.min}


@dataclass
class _Place:
    """Where a tile lies: its extent along each axis, and its first element there."""

    extents: Sequence[int]
    first: Mapping[int, Any] = field(default_factory=dict)


class _Tiles:
    """The nests of all tiles."""

    def __init__(self, function: tirx.PrimFunc, program: VectorProgram, capabilities: Capabilities) -> None:
        self.program, self.capabilities = program, capabilities
        names = [tensor.name for tensor in program.in_dram]
        self.dram = dict(zip(names, function.params, strict=True))
        self.shared = program.shared
        self._operations = capabilities.target.derived(ProgramOperations)

    def body(self) -> tirx.Stmt:
        """The whole function: what all tiles share, the whole tiles, and the last of each row if that has fewer."""
        program = self.program
        place = _Place(program.tile)
        buffers = self._buffers(self.shared, place)
        ahead = [statement for statement in program.parsed if statement.target.name in self.shared]
        made: list[tirx.Stmt] = [tirx.AllocBuffer(buffer) for buffer in buffers.values()]
        made += [self._nest(statement, buffers, place) for statement in ahead]
        made += [self._tiles(buffers, rest=False)]
        if any(program.extents[axis] % program.tile[axis] for axis in program.tiled):
            made.append(self._tiles(buffers, rest=True))
        return made[0] if len(made) == 1 else tirx.SeqStmt(made)

    def _tiles(self, shared: Mapping[str, Any], *, rest: bool) -> tirx.Stmt:
        """All whole tiles, or those that have fewer elements along the axis whose tiles do not divide it."""
        program = self.program
        variables = {axis: tirx.Var(f"tile{axis}", "int32") for axis in program.tiled}
        counts = {axis: program.extents[axis] // program.tile[axis] for axis in program.tiled}
        extents, first = list(program.tile), {}
        for axis in program.tiled:
            left = program.extents[axis] % program.tile[axis]
            if rest and left:
                extents[axis], counts[axis] = left, 1
                first[axis] = tirx.const(program.extents[axis] - left, "int32")
            else:
                first[axis] = variables[axis] * program.tile[axis]
        place = _Place(extents, first)
        names = {tensor.name for tensor in program.on_chip} - self.shared - program.of_blocks
        buffers = dict(shared) | self._buffers(names, place)
        statements = [tirx.AllocBuffer(buffer) for name, buffer in buffers.items() if name not in shared]
        body: tirx.Stmt = tirx.SeqStmt([*statements, *self._statements(buffers, place)])
        overlapping = max((axis for axis in program.tiled if counts[axis] > 1), default=None)
        if program.stream is not None and program.stream.axis in program.cut:  # whose blocks overlap
            overlapping = None
        for axis in reversed(program.tiled):
            notes = (CONTEXTS_PRAGMA, program.contexts) if axis == overlapping and program.contexts > 1 else ()
            body = in_loops([variables[axis]], [counts[axis]], body, *notes)
        return body

    def _statements(self, buffers: Mapping[str, Any], place: _Place) -> list[tirx.Stmt]:
        """The nests of a tile; those of a stream in a loop over whole blocks, and once more for what is left."""
        program, stream = self.program, self.program.stream
        every = program.parsed
        if stream is None:
            return self._nests(every, buffers, place)
        within, axis = every[stream.first : stream.last], stream.axis
        block = program.tile[axis]
        whole, left = divmod(program.extents[axis], block)
        variable = tirx.Var("block", "int32")
        notes = (CONTEXTS_PRAGMA, program.contexts) if whole > 1 and program.contexts > 1 else ()
        body = self._block(within, buffers, _with_axis(place, axis, block, variable * block))
        made = [*self._nests(every[: stream.first], buffers, place), in_loops([variable], [whole], body, *notes)]
        if left:
            first = tirx.const(whole * block, "int32")
            made.append(self._block(within, buffers, _with_axis(place, axis, left, first)))
        return made + self._nests(every[stream.last :], buffers, place)

    def _block(self, statements: Sequence[Statement], buffers: Mapping[str, Any], place: _Place) -> tirx.Stmt:
        """The nests of a block, with buffers of its own."""
        own = self._buffers(self.program.of_blocks - self.shared, place)
        allocated = [tirx.AllocBuffer(buffer) for buffer in own.values()]
        return tirx.SeqStmt([*allocated, *self._nests(statements, {**buffers, **own}, place)])

    def _nests(self, statements: Sequence[Statement], buffers: Mapping[str, Any], place: _Place) -> list[tirx.Stmt]:
        """The nests of what is not shared by all tiles."""
        own = (statement for statement in statements if statement.target.name not in self.shared)
        return [self._nest(statement, buffers, place) for statement in own]

    def _buffers(self, names: set[str] | frozenset[str], place: _Place) -> dict[str, Any]:
        found = {}
        for tensor in self.program.on_chip:
            if tensor.name in names:
                memory = self.capabilities.accelerator.memory(tensor.memory)
                shape = tuple(place.extents[axis] for axis in tensor.axes) or (1,)
                found[tensor.name] = scratchpad_buffer(tensor.name, shape, tensor.dtype, memory.scope)
        return found

    def _nest(self, statement: Statement, buffers: Mapping[str, Any], place: _Place) -> tirx.Stmt:
        """The loops of a statement under the pragma of the instruction that does it."""
        program = self.program
        loops: list[tuple[tirx.Var, int]] = []
        variables: dict[int, Any] = {}
        for axis in program.loops_of(statement):
            lanes = self._lanes(statement, axis)
            variable = tirx.Var(axis_name(axis), "int32")
            loops.append((variable, place.extents[axis] // lanes))
            variables[axis] = variable
            if lanes > 1:  # the loop over an element's numbers is one of its own
                loops.append((tirx.Var("lane", "int32"), lanes))
                variables[axis] = variable * lanes + loops[-1][0]

        def leaf(access: Access | Scalar, _dtype: str = "") -> Any:
            tensor = program.tensor(access.name)
            if isinstance(access, Access) and access in statement.looked_up:
                return buffers[tensor.name][tuple(tirx.const(index, "int32") for index in access.indices)]
            if not tensor.memory:
                at = [_dram_index(axis, variables, place) for axis in tensor.axes]
                return self.dram[tensor.name][tuple(at) or (tirx.const(0, "int32"),)]
            chip = [variables[axis] for axis in tensor.axes]
            return buffers[tensor.name][tuple(chip) or (tirx.const(0, "int32"),)]

        store = tvm_store(statement, types_of(statement, program), leaf)
        pragma = self._operations.first(statement, program).instruction.pragma
        loops = loops or [(tirx.Var("once", "int32"), 1)]
        return in_loops([variable for variable, _ in loops], [extent for _, extent in loops], store, pragma)

    def _lanes(self, statement: Statement, axis: int) -> int:
        """How many numbers along an axis lie in one element of a memory that the statement uses."""
        accelerator = self.capabilities.accelerator
        tensors = [self.program.tensor(name) for name in (statement.target.name, *statement.operands)]
        tables = {table.name for table in statement.looked_up}
        tensors = [tensor for tensor in tensors if tensor.name not in tables]
        on_chip = [tensor for tensor in tensors if tensor.memory and tensor.axes and tensor.axes[-1] == axis]
        return max((accelerator.memory(tensor.memory).element_count for tensor in on_chip), default=1)


def _with_axis(place: _Place, axis: int, extent: int, first: Any) -> _Place:
    """A place with other elements of an axis."""
    extents = list(place.extents)
    extents[axis] = extent
    return _Place(extents, {**place.first, axis: first})


def _dram_index(axis: int, variables: Mapping[int, Any], place: _Place) -> Any:
    if axis == UNIT:
        return tirx.const(0, "int32")
    return place.first[axis] + variables[axis] if axis in place.first else variables[axis]
