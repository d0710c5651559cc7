"""Injection, the stage: every nest under a pragma is replaced by calls of an instruction that answers to it."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.instructions import Copy, takes_rows, takes_windows
from accel.accelerator.semantics import Semantics
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.inject.compute_injection import inject_compute
from accel.lowering.inject.copy_injection import inject_copy
from accel.lowering.inject.divided_loops import without_divisions
from accel.lowering.inject.layer_injection import answering, inject_layer
from accel.lowering.inject.operation_matching import DRAM
from accel.lowering.inject.row_injection import inject_rows
from accel.lowering.inject.window_injection import inject_windows
from accel.lowering.ir.affine_nest import AffineNest, nest_of
from accel.lowering.ir.function_attributes import FIRST_PRAGMA, NESTS, map_regions
from accel.lowering.ir.host_runs import layers_of
from accel.lowering.ir.tir_walk import collect, loads_of, pragma_nests, scope_of, with_sites
from accel.region.kinds import AnyRegion


def inject(module: ir.IRModule, target: Target) -> ir.IRModule:
    """Consume the pragmas of every region, and number the sites of the calls that it has then.

    Raises:
        CompileError: a nest that no instruction can do; the message names the layer, and says what is in the way.
    """
    pragmas, layers = target.accelerator.pragmas, layers_of(module)

    def injected(function: tirx.PrimFunc, _region: AnyRegion) -> tirx.PrimFunc:
        nests = pragma_nests(function.body, pragmas)
        firsts = {each.body: each.value for each in pragma_nests(function.body, {FIRST_PRAGMA})}
        try:
            # made before the tree is rebuilt: an error that crosses TVM's callbacks would lose its type
            made = [_made(nest, target, firsts.get(nest)) for nest in nests]
        except CompileError as error:
            of = ", ".join(layers.get(str(function.attrs["global_symbol"]), ()))
            raise CompileError(f"{of}: {error.detail}" if of else error.detail, field=error.field) from error

        calls = iter(made)

        def attribute(statement: tirx.AttrStmt, mutator: Any) -> tirx.Stmt:
            if statement.attr_key == FIRST_PRAGMA:
                return mutator.mutate(statement.body)
            return next(calls) if statement.attr_key in pragmas else mutator.default_mutate(statement)

        body = with_sites(structural_mutate(function.body, (tirx.AttrStmt, attribute)))
        return function.with_body(body).with_attr(NESTS, _sites_of(nests, made))

    return map_regions(module, injected)


def _sites_of(nests: Sequence[tirx.AttrStmt], made: Sequence[tirx.Stmt]) -> str:
    """What became of each nest, as JSON: its pragma, its number, and the sites of the calls that replace it.

    The calls of a function stand in the order of its nests, and nothing else calls before them: so they are numbered.
    """
    sites = itertools.count()
    rows = [
        {
            "pragma": str(nest.attr_key),
            "nest": int(nest.value),
            "sites": [next(sites) for _ in collect(calls, tirx.Evaluate)],
        }
        for nest, calls in zip(nests, made, strict=True)
    ]
    return json.dumps(rows, separators=(",", ":"))


def _made(nest: tirx.AttrStmt, target: Target, first: tirx.Expr | None) -> tirx.Stmt:
    """What becomes of a nest: a call of a layer if one answers to its pragma, else calls of smaller instructions."""
    layers = answering(nest.attr_key, target)
    if layers:
        return inject_layer(nest.body, layers, target)
    return _call(nest.attr_key, nest_of(nest.body), target, first)


def _call(pragma: str, nest: AffineNest, target: Target, first: tirx.Expr | None) -> tirx.Stmt:
    """The calls for one nest, by the copies that answer to its pragma, or by the others.

    ``first`` says when the sum of the nest begins, if it begins by overwriting. Where no instruction does the nest,
    what stands against the copies counts if it touches DRAM.
    """
    rows = [each for each in target.accelerator.instructions if takes_rows(each)]
    for copy in (each for each in rows if isinstance(each, Copy) and each.pragma == pragma):
        return inject_rows(nest, copy, target)  # which has a pragma of its own
    answering: list[Semantics] = [meaning for meaning in target.semantics if meaning.instruction.pragma == pragma]
    copies = [meaning for meaning in answering if isinstance(meaning.instruction, Copy)]
    windows = [meaning for meaning in copies if takes_windows(meaning.instruction)]
    if windows:  # which have a pragma of their own
        return inject_windows(without_divisions(nest), windows, target)
    computes = [meaning for meaning in answering if not isinstance(meaning.instruction, Copy)]
    if not copies:
        return inject_compute(nest, computes, target, first)
    try:
        return inject_copy(without_divisions(nest), copies, target)
    except CompileError as error:
        if not computes:
            raise
        try:
            return inject_compute(nest, computes, target)
        except CompileError as other:
            buffers = [nest.store.buffer, *(load.source for load in loads_of(nest.store.value))]
            raise (error if any(scope_of(buffer) == DRAM for buffer in buffers) else other) from None
