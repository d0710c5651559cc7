"""Attention of the graph, and whether it goes over blocks of keys: found by what reads what, chosen by cycles."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tvm import relax

from accel.lowering.ir.function_attributes import AttentionChoice, AttentionCosts
from accel.lowering.vector.covers.covered_operators import CoveredOperator
from accel.lowering.vector.covers.key_blocks import Part, converts, moves, multiplies

AttentionOption = Literal["auto", "fused", "unfused"]
"""Where attention goes over blocks of keys: where that takes fewer cycles, wherever it fits, or nowhere."""

_MOST_PARTS = 24  # operators between two products, at most: scales, masks, a softmax as it may be written


@dataclass(frozen=True)
class Attention:
    """Operators that together go over blocks of keys: the variables that they make, in order, and what they read."""

    members: tuple[relax.Var, ...]
    covered: CoveredOperator
    given: tuple[relax.Expr, ...]


@dataclass(frozen=True)
class Costs:
    """What programs take alone, and the variables that they compute, with those that were asked for.

    ``cycles`` are None where they cannot be said, and where the host has a part of what was asked for.
    """

    cycles: int | None
    dram_bytes: int
    members: frozenset[relax.Var]
    on_host: bool


def attention_parts(
    last: relax.Var,
    part_of: Callable[[relax.Expr], Part | None],
    readers: Mapping[relax.Expr, Sequence[relax.Expr]],
    results: Collection[relax.Expr],
) -> Iterator[list[Part]]:
    """Yields what may be attention whose sums are ``last``: all between a product and it, which nothing else reads.

    Args:
        last: a variable.
        part_of: the operator that makes a variable, as statements; None of others.
        readers: of each variable those that read it.
        results: of the graph.
    """
    end = part_of(last)
    if end is None or not multiplies(end.operator):
        return
    parts: dict[relax.Expr, Part] = {last: end}
    behind: dict[relax.Expr, set[relax.Expr]] = {}  # of each variable the parts that read it, on the way to the end
    products: list[relax.Expr] = []
    pending = [end]
    while pending and len(parts) <= _MOST_PARTS:
        part = pending.pop(0)
        for value in part.given:
            behind.setdefault(value, set()).add(part.var)
            if value in parts or (made := part_of(value)) is None:
                continue
            parts[value] = made
            if multiplies(made.operator):
                products.append(value)
            else:
                pending.append(made)
    for first in products:
        between, pending_vars = {first}, [first]
        while pending_vars:
            more = behind.get(pending_vars.pop(), set()) - between
            between |= more
            pending_vars += more
        inner = between - {last}
        if not inner.intersection(results) and all(between.issuperset(readers[var]) for var in inner):
            yield _in_order(_with_makers({var: parts[var] for var in between}, part_of, readers, results))


def _with_makers(
    parts: dict[relax.Expr, Part],
    part_of: Callable[[relax.Expr], Part | None],
    readers: Mapping[relax.Expr, Sequence[relax.Expr]],
    results: Collection[relax.Expr],
) -> list[Part]:
    """Parts with what only moves or converts their operands, element by element, for them alone."""
    found, pending = dict(parts), [value for part in parts.values() for value in part.given]
    while pending:
        value = pending.pop()
        if value in found or value in results or not found.keys() >= set(readers.get(value, ())):
            continue
        part = part_of(value)
        if part is not None and (moves(part.operator) or converts(part.operator)):
            found[value] = part
            pending += part.given
    return list(found.values())


def _in_order(parts: Sequence[Part]) -> list[Part]:
    """Operators behind those that they read."""
    left, found = {part.var: part for part in parts}, list[Part]()
    while left:
        ready = next(var for var, part in left.items() if not any(value in left for value in part.given))
        found.append(left.pop(ready))
    return found


def choose_attentions(
    found: Sequence[Attention],
    usual: Callable[[Collection[relax.Var]], Costs],
    fused: Callable[[Collection[relax.Var]], Costs],
    *,
    always: bool,
) -> tuple[list[Attention], list[AttentionChoice]]:
    """Returns the attention that goes over blocks of keys, and of all of it what it takes either way.

    Each is compared with all programs around it of which it has a part in either placement.

    Args:
        found: the attention that may.
        usual: what programs take where none does, by variables that they compute.
        fused: where all does.
        always: whether all shall.
    """
    chosen, choices = list[Attention](), list[AttentionChoice]()
    for attention in found:
        members: frozenset[relax.Var] = frozenset(attention.members)
        while True:
            before, after = usual(members), fused(members)
            if before.members == after.members == members:
                break
            members = before.members | after.members
        own = usual(attention.members)
        faster = after.cycles is not None and (before.cycles is None or after.cycles < before.cycles)
        takes = always or faster
        if takes:
            chosen.append(attention)
        choices.append(
            AttentionChoice(
                tuple(str(var.name) for var in attention.members),
                takes,
                AttentionCosts(after.cycles, after.dram_bytes),
                AttentionCosts(before.cycles, before.dram_bytes),
                own.on_host,
            )
        )
    return chosen, choices
