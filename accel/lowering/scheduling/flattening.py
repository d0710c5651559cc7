"""Flatten: from S-TIR blocks to plain loops over flat buffers, pragmas as attributes around their nests."""

import math
from collections.abc import Container, Iterator, Mapping
from typing import Any

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_equal, structural_mutate

from accel.accelerator.contraction import Contraction
from accel.accelerator.instructions import Compute
from accel.accelerator.target import Target
from accel.lowering.ir.affine_nest import constant_value, nest_of, simplify
from accel.lowering.ir.function_attributes import FIRST_PRAGMA, map_regions, region_functions
from accel.lowering.ir.plain_loops import PLAIN_LOOPS
from accel.lowering.ir.tir_walk import collect, loads_of, rename_buffers, scope_of
from accel.region.kinds import AnyRegion

Loops = tuple[tirx.Var, ...]


def flatten(module: ir.IRModule, target: Target) -> ir.IRModule:
    """Lower every region's blocks; buffers shrink to one tile and keep their scope.

    TVM's own passes do the lowering; what is ours is that elementwise stages share one buffer, so that
    instructions can work in place.
    """
    accelerator = target.accelerator
    lowered = PLAIN_LOOPS(ir.IRModule(region_functions(module)))
    computes = {i.pragma for i in accelerator.instructions if isinstance(i, Compute)}

    def flattened(function: tirx.PrimFunc, _region: AnyRegion) -> tirx.PrimFunc:
        shared = share_buffers_in_place(lowered[str(function.attrs["global_symbol"])], accelerator.pragmas, computes)
        return begin_by_overwriting(shared, target.contraction)

    return tirx.transform.RemoveNoOp()(map_regions(module, flattened))


def share_buffers_in_place(function: tirx.PrimFunc, pragmas: set[str], computes: set[str]) -> tirx.PrimFunc:
    """Let an elementwise stage write where it read, if nobody reads the old value afterwards.

    The next iteration of a loop would read it, too, unless it was written within that.
    """
    nests = list(_nests_in_loops(function.body, pragmas, ()))
    shared: dict[tirx.Var, tirx.Var] = {}
    written: dict[tirx.Var, list[Loops]] = {}
    for position, (statement, loops) in enumerate(nests):
        if statement.attr_key in computes:
            store = nest_of(statement.body).store
            kept = {load.source for later, _ in nests[position + 1 :] for load in loads_of(later)}
            kept |= {load.source for load in loads_of(store.value) if not _is_within(load.source, written, loops)}
            place = _in_place_of(store, kept)
            if place is not None:
                shared[store.buffer] = shared.get(place, place)
        for each in collect(statement, tirx.BufferStore):
            written.setdefault(each.buffer, []).append(loops)
    return function.with_body(_without_moves(rename_buffers(function.body, shared), computes))


def _in_place_of(store: tirx.BufferStore, kept: Container[tirx.Var]) -> tirx.Var | None:
    """The first buffer, of those that need not be ``kept``, whose element a store may replace by its own."""
    loads = loads_of(store.value)
    if any(load.source.same_as(store.buffer) for load in loads):
        return None
    return next((load.source for load in loads if load.source not in kept and _same_element(load, store)), None)


def _is_within(buffer: tirx.Var, written: Mapping[tirx.Var, list[Loops]], outer: Loops) -> bool:
    """Whether a buffer is written within the outer loops, where those around its writes are known."""
    return any(_begins(loops, outer) for loops in written.get(buffer, []))


def _begins(loops: Loops, outer: Loops) -> bool:
    """Whether loops begin with all of the outer ones."""
    return len(loops) >= len(outer) and all(one.same_as(other) for one, other in zip(loops, outer, strict=False))


def begin_by_overwriting(function: tirx.PrimFunc, gemm: Contraction) -> tirx.PrimFunc:
    """Let the first product of a sum overwrite, where the contraction can do that and cannot clear accumulators.

    The nests that clear them are gone then, and an attribute around that of the sum says in which iterations of the
    loops around it the sum begins.
    """
    if gemm.zero is not None or not gemm.overwrites:
        return function
    cleared: dict[tirx.Var, tuple[tirx.AttrStmt, Loops]] = {}
    gone: list[tirx.AttrStmt] = []
    begins: list[tuple[tirx.AttrStmt, tirx.Expr]] = []
    for nest, loops in _nests_in_loops(function.body, {gemm.instruction.pragma}, ()):
        store = nest_of(nest.body).store
        if constant_value(store.value) == 0:
            cleared[store.buffer] = nest, loops
            continue
        clear, around = cleared.pop(store.buffer, (None, ()))
        if clear is None or _written(clear) != _written(nest):
            continue
        first: tirx.Expr = tirx.const(True, "bool")
        for variable in loops[len(around) :]:
            first = tirx.And(first, tirx.EQ(variable, tirx.const(0, str(variable.ty.dtype))))
        gone.append(clear)
        begins.append((nest, simplify(first)))

    def attribute(statement: tirx.AttrStmt, mutator: Any) -> tirx.Stmt:
        if any(statement.same_as(nest) for nest in gone):
            return tirx.Evaluate(0)
        first = next((first for nest, first in begins if statement.same_as(nest)), None)
        if first is None:
            return mutator.default_mutate(statement)
        return tirx.AttrStmt(statement.node, FIRST_PRAGMA, first, statement)

    return function.with_body(structural_mutate(function.body, (tirx.AttrStmt, attribute)))


def _written(nest: tirx.AttrStmt) -> int:
    """How many elements a nest writes."""
    loops = nest_of(nest.body)
    return math.prod(extent for extent, step in zip(loops.extents, loops.target.strides, strict=True) if step)


def _nests_in_loops(statement: Any, pragmas: set[str], loops: Loops) -> Iterator[tuple[tirx.AttrStmt, Loops]]:
    """Yields the nests under the pragmas in program order, with the variables of the loops around each."""
    if isinstance(statement, tirx.SeqStmt):
        for child in statement.seq:
            yield from _nests_in_loops(child, pragmas, loops)
    elif isinstance(statement, tirx.For):
        yield from _nests_in_loops(statement.body, pragmas, (*loops, statement.loop_var))
    elif isinstance(statement, tirx.AttrStmt) and statement.attr_key in pragmas:
        yield statement, loops
    elif isinstance(statement, tirx.AttrStmt):
        yield from _nests_in_loops(statement.body, pragmas, loops)


def _without_moves(body: tirx.Stmt, computes: set[str]) -> tirx.Stmt:
    """The body without the nests that put accumulators where they are: a sum that goes on from them begins so."""

    def kept(statement: tirx.AttrStmt, mutator: Any) -> tirx.Stmt:
        if statement.attr_key in computes:
            store = nest_of(statement.body).store
            value = store.value
            if isinstance(value, TensorLoad) and value.source.same_as(store.buffer) and _same_element(value, store):
                return tirx.Evaluate(0)
        return mutator.default_mutate(statement)

    return structural_mutate(body, (tirx.AttrStmt, kept))


def _same_element(load: TensorLoad, store: tirx.BufferStore) -> bool:
    return (
        scope_of(load.source) == scope_of(store.buffer)
        and structural_equal(load.source.shape, store.buffer.shape)
        and structural_equal(list(load.indices), list(store.indices))
    )
