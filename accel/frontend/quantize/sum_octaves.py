"""The octaves of tensors that are added: each tensor's own error, and the shifts that sums take where octaves differ.

For every fraction of an octave at once, sum after sum takes the octaves of its operands and its result that cost least,
given those of all others. What a sum costs for each octave of one of its tensors is kept, and so is what all sums of a
tensor do, and a tensor that changes its octave changes these for the sums it is in alone. So a tensor that a thousand
sums add costs no more to place than one of two.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.util.arrays import Array

_ROUNDS = 2
_SHIFTED = 0.5  # of the errors of a sum's operands and result: what a shift is to be worth
_MOST_OPTIONS = 200
_BITS = 52  # of a float64
_FAR = 1 << 30  # beyond every index


@dataclass(frozen=True)
class _Form:
    """Sums whose names stand for equally many tensors in the same places: n sums of k tensors, in P fractions.

    Attributes:
        operands: the places, among the tensors of a sum, of those added.
        result: the place of the result, which may be one of them.
        members: the tensors of each sum [n, k], by number.
        weights: what a shift costs [n, P].
        alone: what a sum costs for each of a tensor's C octaves, the others' being as they are [n, k, P, C].
    """

    operands: tuple[int, ...]
    result: int
    members: Array
    weights: Array
    alone: Array


def choose_octaves(
    shares: Mapping[str, Mapping[int, float]], sums: Sequence[tuple[str, ...]], density: int
) -> list[tuple[dict[str, int], dict[str, float]]]:
    """Returns for each fraction of an octave the indices of scales that are best for the tensors, and what they cost.

    A sum whose operands and result have one scale takes no shift, and rounds nothing: whatever is shifted counts more.

    Args:
        shares: the error of each tensor, as a share of its energy, by the index of its scale; some of every fraction.
        sums: of each the operands and, last, the result.
        density: the number of fractions: that of an index is what it leaves when divided by it.
    """
    return _Octaves(shares, sums, density).chosen() if shares else [({}, {})] * density


class _Octaves:
    """Has the octave of each of T tensors, in every one of P fractions, and what is known of its sums."""

    def __init__(
        self, shares: Mapping[str, Mapping[int, float]], sums: Sequence[tuple[str, ...]], density: int
    ) -> None:
        self._number = {name: at for at, name in enumerate(shares)}
        options = [
            [[i for i in errors if i % density == part] for part in range(density)] for errors in shares.values()
        ]
        self._counts = [max(map(len, parts)) for parts in options]
        most = max(self._counts)
        # those that a tensor lacks are its last once more, at an infinite cost
        self._indices = np.array([[[*o, *o[-1:] * (most - len(o))] for o in parts] for parts in options], np.int64)
        costs = [
            [[*(errors[i] for i in o), *[math.inf] * (most - len(o))] for o in parts]
            for errors, parts in zip(shares.values(), options, strict=True)
        ]
        self._own = np.array(costs, np.float64)
        self._parts = np.arange(density)
        self._at = self._own.argmin(-1)  # [T, P]
        self._sums = [tuple(self._number[name] for name in names) for names in sums]
        self._forms, self._placed = self._formed()
        self._within: dict[int, dict[int, list[int]]] = {}  # tensor, form -> sums
        for form, row in self._placed:
            for member in self._forms[form].members[row].tolist():
                self._within.setdefault(member, {}).setdefault(form, []).append(row)
        self._near = np.zeros(self._own.shape)  # what all sums of a tensor cost, for each of its octaves [T, P, C]
        for form, each in enumerate(self._forms):
            self._renew(form, np.arange(len(each.members)))
        self._both: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def chosen(self) -> list[tuple[dict[str, int], dict[str, float]]]:
        for _ in range(_ROUNDS):
            for at, row in self._placed:
                members = self._forms[at].members[row].tolist()
                if math.prod(self._counts[member] for member in members) <= _MOST_OPTIONS:
                    self._place(members)
        chosen = self._at[..., None]
        indices = np.take_along_axis(self._indices, chosen, -1)[..., 0]
        costs = np.take_along_axis(self._own, chosen, -1)[..., 0]
        for form in self._forms:
            results = form.members[:, form.result]
            now = np.take_along_axis(form.alone[:, form.result], self._at[results][..., None], -1)[..., 0]
            np.add.at(costs, results, now)
        return [
            (dict(zip(self._number, found, strict=True)), dict(zip(self._number, cost, strict=True)))
            for found, cost in zip(indices.T.tolist(), costs.T.tolist(), strict=True)
        ]

    def _formed(self) -> tuple[list[_Form], list[tuple[int, int]]]:
        """The sums in their forms, and where each is: in which form, which of its sums."""
        rows: dict[tuple[tuple[int, ...], int], list[int]] = {}
        members = [tuple(dict.fromkeys(names)) for names in self._sums]
        for at, names in enumerate(self._sums):
            *operands, result = (members[at].index(name) for name in names)
            rows.setdefault((tuple(dict.fromkeys(operands)), result), []).append(at)
        least = self._own.min(-1)
        weights = np.array([_SHIFTED * sum(least[name] for name in names) for names in self._sums])
        # multiples of one number: sums of them are exact, in whatever order they are made
        step = 2.0 ** (math.frexp(4 * float(weights.sum(0).max()) if weights.size else 0.0)[1] - _BITS)
        weights = np.rint(weights / step) * step
        forms: list[_Form] = []
        placed = [(0, 0)] * len(self._sums)
        for (found, result), each in rows.items():
            for row, at in enumerate(each):
                placed[at] = len(forms), row
            tensors = np.array([members[at] for at in each])
            alone = np.zeros((*tensors.shape, *self._own.shape[1:]))
            forms.append(_Form(found, result, tensors, weights[each], alone))
        return forms, placed

    def _renew(self, form: int, rows: Array) -> None:
        """Finds anew what the sums ``rows`` of a form cost for each octave of each of their tensors."""
        sums = self._forms[form]
        members = sums.members[rows]
        fixed = self._indices[members[..., None], self._parts, self._at[members]]  # [n, k, P]
        added = fixed[:, sums.operands]
        lows, highs = _others(added, np.minimum, _FAR), _others(added, np.maximum, -_FAR)
        for place in range(members.shape[1]):
            options = self._indices[members[:, place]]  # [n, P, C]
            if place in sums.operands:
                operand = sums.operands.index(place)
                low, high = np.minimum(lows[:, operand], options), np.maximum(highs[:, operand], options)
            else:
                low, high = added.min(1)[..., None], added.max(1)[..., None]
            result = options if place == sums.result else fixed[:, sums.result, :, None]
            cost = sums.weights[rows][..., None] * _shifts(low, high, result)
            np.add.at(self._near, members[:, place], cost - sums.alone[rows, place])
            sums.alone[rows, place] = cost

    def _place(self, tensors: list[int]) -> None:
        """Gives the tensors of a sum the octaves that cost least, given those of all others."""
        axes = len(tensors)
        costs = np.zeros((len(self._parts), *[self._own.shape[-1]] * axes))
        for axis, tensor in enumerate(tensors):
            costs += _along(self._own[tensor], axis, axes)
        near = [self._near[tensor] for tensor in tensors]
        together: dict[int, set[int]] = {}
        for pair in itertools.combinations(tensors, 2):
            for form, row in self._of_both(*pair):
                together.setdefault(form, set()).add(row)
        if axes == 1:
            costs += near[0]
        for form, found in together.items():
            rows = np.array(sorted(found))
            members, alone = self._forms[form].members[rows], self._forms[form].alone[rows]
            standing = np.full(members.shape, -1)
            for axis, tensor in enumerate(tensors):
                standing[members == tensor] = axis
                near[axis] = near[axis] - alone[members == tensor].sum(0)
            for pattern in np.unique(standing, axis=0) if len(rows) > 1 else standing:
                costs += self._jointly(form, rows[(standing == pattern).all(1)], pattern.tolist(), tensors)
        for axis in range(axes if axes > 1 else 0):
            costs += _along(near[axis], axis, axes)
        best = costs.reshape(len(costs), -1).argmin(1)
        self._move(tensors, np.stack(np.unravel_index(best, costs.shape[1:])))

    def _jointly(self, form: int, rows: Array, pattern: list[int], tensors: list[int]) -> Array:
        """What sums cost for each choice for ``tensors``: [P, C, C ...], an axis for each.

        Args:
            form: of the sums.
            rows: the sums.
            pattern: the axis of each of their tensors; -1 of others, which are fixed.
            tensors: those of the axes.
        """
        sums, axes = self._forms[form], len(tensors)
        values = []
        for place, axis in enumerate(pattern):
            if axis < 0:
                members = sums.members[rows, place]
                fixed = self._indices[members[..., None], self._parts, self._at[members]]
                values.append(fixed.reshape(*fixed.shape, *[1] * axes))
            else:
                values.append(_along(self._indices[tensors[axis]], axis, axes)[None])
        low = high = values[sums.operands[0]]
        for operand in sums.operands[1:]:
            low, high = np.minimum(low, values[operand]), np.maximum(high, values[operand])
        weights = sums.weights[rows]
        costs: Array = (weights.reshape(*weights.shape, *[1] * axes) * _shifts(low, high, values[sums.result])).sum(0)
        return costs

    def _of_both(self, one: int, other: int) -> list[tuple[int, int]]:
        """The sums that two tensors are both in."""
        known = self._both.get((one, other))
        if known is None:
            few, many = sorted((one, other), key=lambda tensor: sum(map(len, self._within[tensor].values())))
            rows = ((form, row) for form, found in self._within[few].items() for row in found)
            known = [(form, row) for form, row in rows if many in self._forms[form].members[row]]
            self._both[one, other] = known
        return known

    def _move(self, tensors: list[int], to: Array) -> None:
        """Gives tensors new octaves [k, P], and their sums what these then cost."""
        moved = [at for at, tensor in enumerate(tensors) if (self._at[tensor] != to[at]).any()]
        touched: dict[int, set[int]] = {}
        for at in moved:
            self._at[tensors[at]] = to[at]
            for form, rows in self._within[tensors[at]].items():
                touched.setdefault(form, set()).update(rows)
        for form, found in touched.items():
            self._renew(form, np.array(sorted(found)))


def _shifts(low: Array, high: Array, result: Array) -> Array:
    """How many shifts sums take: of operands, if the least and the largest index differ, and of the result."""
    count: Array = np.add(high > low, result != low, dtype=np.int64)
    return count


def _others(values: Array, ufunc: np.ufunc, nothing: int) -> Array:
    """The least, or largest, of all ``values`` [n, k, P] but one: [n, k, P, 1]."""
    ahead, behind = np.full_like(values, nothing), np.full_like(values, nothing)
    ahead[:, 1:] = ufunc.accumulate(values, 1)[:, :-1]
    behind[:, :-1] = ufunc.accumulate(values[:, ::-1], 1)[:, -2::-1]
    found: Array = ufunc(ahead, behind)[..., None]
    return found


def _along(values: Array, axis: int, axes: int) -> Array:
    """``values`` [P, C] with C as one of ``axes`` axes behind the first."""
    shape = [len(values), *[1] * axes]
    shape[1 + axis] = values.shape[1]
    placed: Array = values.reshape(shape)
    return placed
