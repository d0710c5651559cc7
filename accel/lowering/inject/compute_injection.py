"""A nest of arithmetic becomes a compute instruction, by matching it against the instruction's expressions."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm import tirx

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import span
from accel.accelerator.instructions import Compute, Layer
from accel.accelerator.semantics import Semantics, scalar_field
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.expression.syntax_tree import Access, index_terms
from accel.lowering.inject.hardware_loops import LoopAssignment, LoopAxis, assign_hardware_loops
from accel.lowering.inject.operation_matching import OperationMatch, matching_operations, nearest_mismatch
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import AffineAccess, AffineNest, constant_value, in_loops, simplify, substitute
from accel.lowering.ir.document_paths import INSTRUCTIONS


def inject_compute(
    nest: AffineNest, known: list[Semantics], target: Target, first: tirx.Expr | None = None
) -> tirx.Stmt:
    """The first instruction of ``known`` that does what the nest does, inside the loops that it does not make itself.

    Args:
        nest: the nest.
        known: the operations to choose from.
        target: what it is for.
        first: when the nest's sum begins, where its first product overwrites; None: it goes on from what is there.

    Raises:
        CompileError: none does; the message says what stands against the one that comes nearest.
    """
    misfits: list[str] = []
    for choice in matching_operations(nest.store, known, target, misfits):
        try:
            return _made(nest, choice, target, first)
        except CompileError as error:
            misfits.append(error.detail)
    why = misfits[0] if misfits else nearest_mismatch(nest.store, known, target)
    raise CompileError(f"no instruction does {nest.store.buffer.name} = {nest.store.value}: {why}", field=INSTRUCTIONS)


def _made(nest: AffineNest, choice: OperationMatch, target: Target, first: tirx.Expr | None) -> tirx.Stmt:
    accelerator, instruction = target.accelerator, choice.meaning.instruction
    assert isinstance(instruction, Compute)
    accesses = _accesses(nest, choice)
    axes, steps = _instruction_axes(nest, choice, accesses, accelerator)
    assignment = assign_hardware_loops(axes, instruction, list(accesses), accelerator)
    order = _after_what_stays(assignment, list(accesses), instruction, accelerator)
    stays, assignment = order is not None, replace(assignment, left=order or assignment.left)
    fields: dict[str, Any] = {
        scalar_field(accelerator, instruction, name): tirx.const(step, "int32") for name, step in steps.items()
    }
    tables = {table.name for table in choice.meaning.typed.statement.looked_up}
    for name, access in accesses.items():
        size = accelerator.memory(instruction.operands[name].memory).element_count
        # what is looked up by 0 may be in the middle of a table
        index = simplify(tirx.floordiv(access.base, size)) if name in tables else access.first_element(size)
        fields |= {instruction_calls.operand(name): access.buffer.data, instruction_calls.index(name): index}
    for name, value in choice.scalars.items():
        fields[scalar_field(accelerator, instruction, name)] = value
    fields |= {name: tirx.const(value, "int32") for name, value in choice.meaning.operation.when.items()}
    fields |= assignment.fields
    if first is not None:
        fields |= _beginning(choice.meaning, assignment.left, list(accesses), target.contraction, first)
    if instruction.microops is not None:
        loops = [(axis.extent, *axis.strides) for axis in assignment.left]
        return instruction_calls.call(instruction.name, fields, loops)
    return _around(assignment, list(accesses), instruction, fields, shortest_first=stays)


def _after_what_stays(
    assignment: LoopAssignment, operands: list[str], instruction: Compute, accelerator: Accelerator
) -> tuple[LoopAxis, ...] | None:
    """The loops around an instruction: those that leave what stays in its unit where it is come last.

    That is worth it where the instruction makes fewer iterations than that operand has elements, always or in one of
    the pieces of a loop: to bring it takes longer then than to use it. Else the results of the first iterations are
    there the sooner, and there is None.
    """
    iterations = 1
    for loop in instruction.loops:
        extent = constant_value(assignment.fields[loop.extent])
        iterations = iterations * (loop.limit or 1) if extent is None else iterations * extent
    ragged = any(constant_value(assignment.fields[loop.extent]) is None for loop in instruction.loops)
    order, stays = assignment.left, False
    for number, name in enumerate(operands):
        operand = instruction.operands[name]
        if operand.stays and iterations - ragged < span(operand, accelerator.memory(operand.memory)):
            order, stays = tuple(sorted(order, key=lambda axis: not axis.strides[number])), True
    return order if stays else None


def _beginning(
    meaning: Semantics, left: Sequence[LoopAxis], operands: list[str], gemm: Contraction, first: tirx.Expr
) -> dict[str, tirx.Expr]:
    """The fields in which an overwriting product differs from one that goes on with a sum.

    It is the one of the first iteration of all loops around it that do not move the accumulators.
    """
    assert gemm.overwrite is not None
    target = operands.index(meaning.typed.statement.target.name)
    for axis in left:
        if not axis.strides[target] and axis.variable is not None:
            first = tirx.And(first, tirx.EQ(axis.variable, tirx.const(0, str(axis.variable.ty.dtype))))
    found: dict[str, tirx.Expr] = {}
    for name, value in gemm.overwrite.when.items():
        other = meaning.operation.when.get(name, 0)
        if value != other:
            numbers = (tirx.const(number, "int32") for number in (value, other))
            found[name] = simplify(tirx.Select(first, *numbers))
    return found


def _accesses(nest: AffineNest, choice: OperationMatch) -> dict[str, AffineAccess]:
    """How each operand steps; one that the operation does not read points where the target does, if it may."""
    instruction, statement = choice.meaning.instruction, choice.meaning.typed.statement
    assert isinstance(instruction, Compute)
    found = {statement.target.name: nest.target}
    for name, load in choice.operands.items():
        found[name] = nest.access(load.source, load.indices)
    if statement.reads_target or statement.updates:
        read = choice.target_read
        again = nest.access(read.source, read.indices) if read is not None else nest.target
        if again.strides != nest.target.strides or constant_value(simplify(again.base - nest.target.base)) != 0:
            raise CompileError(f"{instruction.name} works in place", field=INSTRUCTIONS)
    target = instruction.operands[statement.target.name]
    for name, operand in instruction.operands.items():
        if name not in found and (operand.memory, operand.shape) == (target.memory, target.shape):
            found[name] = nest.target
    return {name: found[name] for name in instruction.operands if name in found}


def _instruction_axes(
    nest: AffineNest, choice: OperationMatch, accesses: dict[str, AffineAccess], accelerator: Accelerator
) -> tuple[list[LoopAxis], dict[str, int]]:
    """The loops around the instruction's own tile, and the fields that are steps of its indices."""
    misfit: CompileError | None = None
    for steps in _index_steps(choice, accesses, accelerator):
        try:
            return outer_axes(nest, choice.meaning, accesses, accelerator, steps), steps
        except CompileError as error:
            misfit = misfit or error
    name = choice.meaning.instruction.name
    raise misfit or CompileError(f"no step of an index of {name} fits the nest", field=INSTRUCTIONS)


def _index_steps(
    choice: OperationMatch, accesses: dict[str, AffineAccess], accelerator: Accelerator
) -> Iterator[dict[str, int]]:
    """What the fields that are steps of indices may hold: each number of elements that a loop of the nest steps by."""
    meaning, fields = choice.meaning, []
    instruction, statement = meaning.instruction, meaning.typed.statement
    for name in statement.index_scalars:
        whole = scalar_field(accelerator, instruction, name)
        bound = choice.scalars.get(name)
        fixed = constant_value(bound) if bound is not None else meaning.operation.when.get(whole)
        if fixed is None:
            _, most = accelerator.field(instruction, whole).limits
            strides = {abs(step) for access in accesses.values() for step in access.strides}
            units = [unit for access in statement.accesses for unit in _field_units(access, name, meaning)]
            fields.append(sorted({step // unit for step in strides for unit in units if 0 < step // unit < most}))
        else:
            fields.append([fixed])
    for values in itertools.product(*fields):
        yield dict(zip(statement.index_scalars, values, strict=True))


def _field_units(access: Access, name: str, meaning: Semantics) -> Iterator[int]:
    """Scalars that an operand moves by for each 1 of a field that is a step of its indices."""
    stride = 1
    for index, extent in zip(reversed(access.indices), reversed(meaning.typed.tensors[access.name].shape), strict=True):
        if any(step == name for _, step in index_terms(index)):
            yield stride
        stride *= extent


def outer_axes(
    nest: AffineNest,
    meaning: Semantics,
    accesses: dict[str, AffineAccess],
    accelerator: Accelerator,
    steps: Mapping[str, int],
    pitches: Mapping[str, int] | None = None,
) -> list[LoopAxis]:
    """Take the instruction's own tile out of the nest; what is left steps over whole elements.

    ``steps`` are the fields that are steps of indices, ``pitches`` the scalars from element to element of operands
    whose elements do not lie side by side.

    Raises:
        CompileError: the nest does not walk the tile.
    """
    instruction = meaning.instruction
    assert isinstance(instruction, Compute | Layer)
    left = [
        (extent, tuple(access.strides[i] for access in accesses.values()), nest.variables[i])
        for i, extent in enumerate(nest.extents)
    ]
    inner = {name: inner_strides(name, meaning, steps, (pitches or {}).get(name)) for name in accesses}
    longer: list[tuple[str, int, tuple[int, ...]]] = []
    for axis, extent in meaning.typed.extents.items():
        pattern = (extent, tuple(inner[name].get(axis, 0) for name in accesses))
        at = next((i for i in reversed(range(len(left))) if left[i][:2] == pattern), None)
        if at is not None and extent > 1:
            del left[at]
        elif extent > 1:
            longer.append((axis, *pattern))
    for axis, extent, strides in sorted(longer, key=lambda one: max(one[2])):
        _take_part(left, axis, extent, strides, instruction)
    sizes = [accelerator.memory(instruction.operands[name].memory).element_count for name in accesses]
    if any(stride % size for _, strides, _ in left for stride, size in zip(strides, sizes, strict=True)):
        raise CompileError(
            f"a loop of the nest cuts through an element of {instruction.name}'s operands", field=INSTRUCTIONS
        )
    return [
        LoopAxis(extent, tuple(stride // size for stride, size in zip(strides, sizes, strict=True)), variable)
        for extent, strides, variable in left
    ]


def _take_part(
    left: list[tuple[int, tuple[int, ...], tirx.Var]],
    axis: str,
    extent: int,
    strides: tuple[int, ...],
    instruction: Compute | Layer,
) -> None:
    """Take an axis out of a loop of ``left`` that is so many times as long; the rest of that takes longer steps."""
    for at, (whole, steps, variable) in reversed(list(enumerate(left))):
        if steps == strides and whole % extent == 0:
            rest = (whole // extent, tuple(step * extent for step in strides), variable)
            left[at : at + 1] = [rest] if rest[0] > 1 else []
            return
    raise CompileError(f"no loop walks axis {axis} of {instruction.name} ({extent} wide)", field=INSTRUCTIONS)


def inner_strides(name: str, meaning: Semantics, steps: Mapping[str, int], pitch: int | None = None) -> dict[str, int]:
    """Scalars from one index to the next along each axis of the expression, within the operand.

    An operand that the operation does not name walks as its target does. ``pitch`` is from element to element, where
    they do not lie side by side.
    """
    statement = meaning.typed.statement
    used = (statement.target, *statement.accesses)
    access = next((access for access in used if access.name == name), statement.target)
    strides: dict[str, int] = {}
    stride = 1
    for index, extent in zip(reversed(access.indices), reversed(meaning.typed.tensors[access.name].shape), strict=True):
        for axis, step in index_terms(index):
            strides[axis] = strides.get(axis, 0) + stride * (steps[step] if isinstance(step, str) else step)
        stride = stride * extent if pitch is None else pitch
    return strides


def _around(
    assignment: LoopAssignment,
    operands: list[str],
    instruction: Compute,
    fields: dict[str, Any],
    *,
    shortest_first: bool,
) -> tirx.Stmt:
    """The call inside the loops that are left, its addresses stepping with them.

    With ``shortest_first`` the pieces of a loop are walked from the last: what is brought next, while the last that is
    walked runs, takes as long as a whole one.
    """
    axes = assignment.left
    for number, name in enumerate(operands):
        index = fields[instruction_calls.index(name)]
        for axis in axes:
            if axis.strides[number] and axis.variable is not None:
                index = index + axis.variable * axis.strides[number]
        fields[instruction_calls.index(name)] = simplify(index)
    if shortest_first and assignment.pieces:
        last = {axis.variable: tirx.const(axis.extent - 1, "int32") for axis in axes}
        turned = {variable: last[variable] - variable for variable in assignment.pieces}
        placed = [instruction_calls.operand(name) for name in operands]  # buffers, which no variable moves
        fields |= {name: simplify(substitute(fields[name], turned)) for name in fields if name not in placed}
    statement = instruction_calls.call(instruction.name, fields)
    return in_loops([axis.variable for axis in axes], [axis.extent for axis in axes], statement)
