"""Insertion of tokens, the stage: dependence tokens by the lifetimes of buffers, or else by program order."""

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tvm import ir, tirx

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.target import Target
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import simplify
from accel.lowering.ir.function_attributes import map_regions
from accel.lowering.ir.injected_function import (
    InjectedCall,
    InjectedFunction,
    Loop,
    injected_function_of,
    instance_count,
    linear_index,
    writes_scratchpad,
)
from accel.lowering.ir.tir_walk import next_site, rewrite_calls
from accel.lowering.sync.program_order_sync import synchronise_in_program_order
from accel.region.kinds import AnyRegion

Flags = dict[int, dict[str, tirx.Expr]]  # number of the call -> token field -> 1 where its condition holds


class _LifetimesUndecided(Exception):  # noqa: N818  it says what is so, and no user sees it
    """The lifetimes of the buffers do not say which tokens there must be; the message says why."""


def synchronise(module: ir.IRModule, target: Target) -> ir.IRModule:
    """Set the token fields of every call, and end every region with the instruction that ends a launch.

    Raises:
        CompileError: units that use one buffer and cannot wait for each other.
    """
    accelerator = target.accelerator

    def synchronised(function: tirx.PrimFunc, _region: AnyRegion) -> tirx.PrimFunc:
        finish = accelerator.finish
        body = function.body
        ending: dict[str, tirx.Expr] = {}
        if isinstance(accelerator.synchronisation, TokenSync):
            body, ending = _with_tokens(function, accelerator, accelerator.synchronisation.limit)
        if finish is not None:
            body = tirx.SeqStmt([body, instruction_calls.call(finish.name, ending, site=next_site(body))])
        return function.with_body(body)

    return map_regions(module, synchronised)


def _with_tokens(
    function: tirx.PrimFunc, accelerator: Accelerator, limit: int
) -> tuple[tirx.Stmt, dict[str, tirx.Expr]]:
    """The body with its tokens, and the fields of the instruction that ends the launch."""
    view = injected_function_of(function, accelerator)
    try:
        flags, ending = _by_lifetime(view, accelerator, limit)
    except _LifetimesUndecided:
        flags, ending = synchronise_in_program_order(view, accelerator, limit)
    return _with_flags(function.body, flags), ending


def _by_lifetime(view: InjectedFunction, accelerator: Accelerator, limit: int) -> tuple[Flags, dict[str, tirx.Expr]]:
    flags: Flags = {}
    finish = accelerator.finish
    ending: dict[str, tirx.Expr] = {}
    carriers = _carriers(_groups(view, accelerator), view)
    if len({frozenset((carrier.producer, carrier.consumer)) for carrier in carriers}) < len(carriers):
        raise _LifetimesUndecided("two units fill buffers for each other: one queue would hold tokens of both kinds")
    if any(carrier.contexts > limit for carrier in carriers):
        raise _LifetimesUndecided("a queue would hold more tokens than it can")
    for carrier in carriers:
        last = finish is not None and finish.unit == carrier.producer
        _place(carrier, view, accelerator, flags, drain=last)
        if finish is not None and last:
            ending[finish.tokens.pop[carrier.consumer]] = tirx.const(1, "int32")
    stores = {site.unit for site in view.sites if not writes_scratchpad(site, accelerator)}
    if finish is not None and stores - {finish.unit} - {c.consumer for c in carriers if c.producer == finish.unit}:
        raise _LifetimesUndecided("the launch would end before the last store")
    return flags, ending


@dataclass(frozen=True)
class _Group:
    """Buffers of one lifetime that ``producer`` fills and ``consumer`` uses."""

    producer: str
    consumer: str
    loops: tuple[Loop, ...]
    contexts: int
    buffers: tuple[tirx.Var, ...]
    first_write: int


def _groups(view: InjectedFunction, accelerator: Accelerator) -> list[_Group]:
    found: dict[tuple[Any, ...], _Group] = {}
    for allocation in view.allocations.values():
        users = [site for site in view.sites if allocation.buffer in site.buffers]
        producer = users[0].unit  # whoever touches a buffer first fills it
        consumers = {site.unit for site in users} - {producer}
        if not consumers:
            continue
        if len(consumers) > 1 or not writes_scratchpad(users[0], accelerator):
            raise _LifetimesUndecided(f"{allocation.buffer.name} is used by {sorted(consumers)} at once")
        consumer = consumers.pop()
        key = (producer, consumer, tuple(loop.variable for loop in allocation.loops if loop.extent > 1))
        group = _Group(producer, consumer, allocation.loops, allocation.contexts, (allocation.buffer,), users[0].index)
        found[key] = group if key not in found else _together(found[key], group)
    return list(found.values())


def _together(one: _Group, other: _Group) -> _Group:
    """Two groups whose lifetimes differ by loops that run once: tokens for the fewer contexts serve both."""
    return replace(
        one,
        loops=min(one.loops, other.loops, key=len),
        contexts=min(one.contexts, other.contexts),
        buffers=one.buffers + other.buffers,
        first_write=min(one.first_write, other.first_write),
    )


def _carriers(groups: list[_Group], view: InjectedFunction) -> list[_Group]:
    """For each pair of units the group of the innermost lifetime, whose tokens order the outer ones too."""

    def pair(group: _Group) -> tuple[str, str]:
        return group.producer, group.consumer

    carriers = []
    for _, members in groupby(sorted(groups, key=pair), key=pair):
        *outer, carrier = sorted(members, key=lambda group: len(group.loops))
        for group in outer:
            _check_implied(group, carrier, view)
        carriers.append(carrier)
    return carriers


def _check_implied(outer: _Group, carrier: _Group, view: InjectedFunction) -> None:
    """Units work in order, so an outer buffer needs no token of its own if the inner ones bracket its use.

    It is filled before the first inner buffer, and by the time that its next instance is filled the inner tokens
    awaited so far must reach its last use: (contexts - 1) x inner instances >= inner contexts, and one more where the
    last use comes after those of the inner buffers.
    """
    turns = len(list(groupby(site.unit for site in view.sites if any(b in site.buffers for b in outer.buffers))))
    nested = turns == 2 and carrier.loops[: len(outer.loops)] == outer.loops and outer.first_write < carrier.first_write
    inner = instance_count(carrier.loops[len(outer.loops) :])
    reused = instance_count(outer.loops) > outer.contexts
    needed = carrier.contexts + int(_last_use(outer, view) > _last_use(carrier, view))
    if not nested or (reused and (outer.contexts - 1) * inner < needed):
        raise _LifetimesUndecided(
            f"tokens of {carrier.producer} and {carrier.consumer} do not cover {outer.buffers[0].name}"
        )


def _last_use(group: _Group, view: InjectedFunction) -> int:
    return max(site.index for site in view.sites if any(buffer in site.buffers for buffer in group.buffers))


def _place(group: _Group, view: InjectedFunction, accelerator: Accelerator, flags: Flags, *, drain: bool) -> None:
    """Tokens of one group: filled after each run of the producer, free after each run of the consumer."""
    sites = [site for site in view.sites if any(buffer in site.buffers for buffer in group.buffers)]
    runs = [list(run) for _, run in groupby(sites, key=lambda site: site.unit)]
    if len(runs) % 2 or (len(runs) > 2 and group.contexts > 1):
        raise _LifetimesUndecided(f"{group.consumer} uses {group.buffers[0].name} out of turn")
    depth, index, total = len(group.loops), linear_index(group.loops), instance_count(group.loops)
    always = tirx.const(True, "bool")
    for number, run in enumerate(runs):
        other = runs[(number + 1) % len(runs)][0].unit
        tokens = accelerator.instruction(run[0].name).tokens
        pushes = pops = always
        if number == len(runs) - 1:  # freed for the instance that will use the same context
            pushes = index + group.contexts < total
            if drain:
                pushes = tirx.Or(pushes, index == total - 1)
        if number == 0:
            pops = index >= group.contexts
        _flag(flags, run[-1], tokens.push[other], tirx.And(pushes, _at(run[-1].loops[depth:], last=True)))
        _flag(flags, run[0], tokens.pop[other], tirx.And(pops, _at(run[0].loops[depth:], last=False)))


def _flag(flags: Flags, site: InjectedCall, name: str, condition: tirx.Expr) -> None:
    fields = flags.setdefault(site.index, {})
    if name in fields:
        raise _LifetimesUndecided(f"{site.name} would need two tokens in {name}")
    fields[name] = simplify(tirx.Cast("int32", condition))


def _at(loops: tuple[Loop, ...], *, last: bool) -> tirx.Expr:
    condition: tirx.Expr = tirx.const(True, "bool")
    for loop in loops:
        condition = tirx.And(condition, loop.variable == (loop.extent - 1 if last else 0))
    return condition


def _with_flags(body: tirx.Stmt, flags: Flags) -> tirx.Stmt:
    def flagged(number: int, statement: tirx.Evaluate) -> tirx.Stmt:
        name, fields, loops = instruction_calls.parse(statement)
        return instruction_calls.call(name, {**flags.get(number, {}), **fields}, loops)

    return rewrite_calls(body, flagged)
