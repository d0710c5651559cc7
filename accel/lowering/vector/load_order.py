"""The order in which a vector program loads its operands: first those that the most work waits for.

A unit loads one operand behind the other, and a unit that computes does its statements in their order: what depends on
one operand alone is done while the next one comes, if the program has it there.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from accel.expression.syntax_tree import Statement
from accel.lowering.vector.tiles.program_buffers import Statements

_NONE = -1  # of what depends on no load


def with_loads_in_order(whole: Statements) -> Statements:
    """Returns a program that loads its operands in the order of the iterations that depend on each, the most first.

    Each statement stands behind the last load that it depends on, as soon as it may, else they keep their order. What
    depends on no load stands where it is first needed. A program with a stream, which says which statements its blocks
    are, is returned as it is.
    """
    if whole.stream is not None:
        return whole
    before = _before(whole.statements)
    ranks = _ranks(whole, before)
    if ranks == sorted(ranks):
        return whole
    last = [_NONE] * len(whole.statements)
    place = {number: rank for rank, number in enumerate(ranks)}
    for number in range(len(whole.statements)):
        own = place.get(number, _NONE)
        last[number] = max([own, *(last[other] for other in before[number])])
    for number in reversed(range(len(whole.statements))):
        behind = [last[other] for other in range(number + 1, len(last)) if number in before[other]]
        if last[number] == _NONE and behind:
            last[number] = min(behind)
    order = sorted(range(len(last)), key=last.__getitem__)
    return replace(whole, statements=tuple(whole.statements[number] for number in order))


def _ranks(whole: Statements, before: Sequence[frozenset[int]]) -> list[int]:
    """The loads, by their numbers, the one first that the most iterations depend on."""
    behind: dict[int, int] = {number: 0 for number, each in enumerate(whole.statements) if _loads(each, whole)}
    depends: list[frozenset[int]] = []
    for number, statement in enumerate(whole.statements):
        own = frozenset({number}) if number in behind else frozenset[int]()
        depends.append(own.union(*(depends[other] for other in before[number])))
        for load in depends[number] - own:
            behind[load] += math.prod(whole.extents[int(axis[1:])] for axis in statement.axes)
    return sorted(behind, key=lambda load: -behind[load])


def _loads(statement: Statement, whole: Statements) -> bool:
    read = [whole.tensors[name] for name in statement.operands]
    return bool(whole.tensors[statement.target.name].memory) and any(not tensor.memory for tensor in read)


def _before(statements: Sequence[Statement]) -> list[frozenset[int]]:
    """Of each statement those that it must stay behind: one of the two writes what the other writes or reads."""
    found = list[frozenset[int]]()
    for number, statement in enumerate(statements):
        used = {statement.target.name, *statement.operands}
        found.append(
            frozenset(
                other
                for other, each in enumerate(statements[:number])
                if each.target.name in used or statement.target.name in each.operands
            )
        )
    return found
