"""Windows of a layer: how far loops of a nest move an operand, what is padded before it, and how much there is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from accel.accelerator.instructions import Layer, Window
from accel.errors import CompileError
from accel.lowering.inject.layer_nest import WindowBound
from accel.lowering.ir.affine_nest import constant_value, simplify
from accel.lowering.ir.document_paths import INSTRUCTIONS

_ZERO = tirx.const(0, "int32")


@dataclass(frozen=True)
class LayerLoop:
    """A loop of a nest: its extent, whether it is summed over, and how each operand in DRAM steps, in elements."""

    variable: tirx.Var
    extent: int
    summed: bool
    steps: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WindowFields:
    """The fields of the windows of the operand ``name``; ``&name.extent`` is what one moves its first address by.

    Attributes:
        name: the operand's.
        layer: the instruction.
        units: of addresses in an element.
        finer: into how many positions what lies between two elements that a kernel meets is cut, without bounds.
    """

    name: str
    layer: Layer
    units: int
    finer: int

    def of(self, assigned: Mapping[str, LayerLoop], bounds: Sequence[WindowBound]) -> dict[str, Any]:
        """The fields, and ``&X.extent``; windows that say the most of how far a loop moves one come first.

        Raises:
            CompileError: no fields say it.
        """
        operand = self.layer.operands[self.name]
        left, ways = list(bounds), []
        for window in operand.windows:
            moved = {extent: assigned[extent] for extent in window.over if extent in assigned}
            own = [b for b in left if any(_step(b, loop) for loop in moved.values())]
            left = [bound for bound in left if not any(bound is each for each in own)]
            ways.append((window, moved, [each.of_positions(own) for each in own]))
        if left:
            raise CompileError(f"a bound of {self.name} is of no loop of {self.layer.name}", field=INSTRUCTIONS)
        found: dict[str, Any] = {}
        steps: dict[str, int] = {}  # of the loops that there are, by their fields: several windows may share one
        for window, moved, own in sorted(ways, key=lambda way: (bool(way[2]), len(way[1])), reverse=True):
            found |= self._window(window, moved, own, steps)
        steps |= {field: 1 for window in operand.windows for field in window.over.values() if field not in steps}
        return found | {field: tirx.const(step, "int32") for field, step in steps.items()}

    def _window(
        self, window: Window, moved: Mapping[str, LayerLoop], bounds: Sequence[WindowBound], known: dict[str, int]
    ) -> dict[str, Any]:
        """The fields of one window, but for how far loops move it, which ``known`` is given by their fields."""
        steps = {extent: loop.steps.get(self.name, 0) for extent, loop in moved.items()}
        positions = self._positions(window, moved, steps, bounds, known)
        for extent, at in positions.items():
            if known.setdefault(window.over[extent], at) != at:
                raise CompileError(
                    f"{self.layer.name} has one {window.over[extent]}, and the nest two", field=INSTRUCTIONS
                )
        pitch = next((steps[extent] // at for extent, at in positions.items() if at), 1)
        if any(steps[extent] != at * pitch for extent, at in positions.items()):
            raise CompileError(f"{self.name} of {self.layer.name} does not step with its bounds", field=INSTRUCTIONS)
        reach = sum((moved[extent].extent - 1) * at for extent, at in positions.items())
        lower = next((bound.base for bound in bounds if bound.rises), None)
        upper = next((bound.base for bound in bounds if not bound.rises), None)
        before = _ZERO if lower is None else simplify(tirx.max(_ZERO, -lower))
        last = tirx.const(reach, "int32") if upper is None else tirx.min(upper, tirx.const(reach, "int32"))
        found: dict[str, Any] = {window.extent: simplify(last + 1 - before)}
        if window.before is not None:
            found[window.before] = before
        elif constant_value(before) != 0:
            raise CompileError(f"{self.layer.name} has no zeros before the first of {self.name}", field=INSTRUCTIONS)
        alone = constant_value(found[window.extent]) == 1  # then nothing lies next to it
        if window.pitch is None and pitch != 1 and not alone:
            raise CompileError(f"{self.name} of {self.layer.name} does not lie side by side", field=INSTRUCTIONS)
        if window.pitch is not None:
            found[window.pitch] = tirx.const(pitch * self.units, "int32")
        key = f"&{self.name}"
        self_moved = simplify(before * pitch)
        return found | {f"{key}.{window.extent}": self_moved}

    def _positions(
        self,
        window: Window,
        moved: Mapping[str, LayerLoop],
        steps: Mapping[str, int],
        bounds: Sequence[WindowBound],
        known: Mapping[str, int],
    ) -> dict[str, int]:
        """How many positions each loop moves a window.

        Without bounds it is what is ``known``, or ``finer`` times as many as there must be.
        """
        if bounds:
            ways = [{extent: abs(_step(bound, loop)) for extent, loop in moved.items()} for bound in bounds]
            inside = {loop.variable for loop in moved.values()}
            outside = any(step for bound in bounds for var, step in bound.steps.items() if var not in inside)
            if outside or any(way != ways[0] for way in ways) or len(bounds) > 2:
                raise CompileError(f"the bounds of {self.name} are not those of a window", field=INSTRUCTIONS)
            return ways[0]
        pitch = math.gcd(*steps.values()) if window.pitch is not None and any(steps.values()) else 1
        for extent, step in steps.items():
            least = known.get(window.over[extent], 0)
            if (
                least > step // pitch
                and step % least == 0
                and all(each % (step // least) == 0 for each in steps.values())
            ):
                pitch = step // least
        if steps and pitch % self.finer:
            raise CompileError(
                f"{self.name} of {self.layer.name} has no position between its elements", field=INSTRUCTIONS
            )
        return {extent: step * self.finer // pitch for extent, step in steps.items()}


def _step(bound: WindowBound, loop: LayerLoop) -> int:
    return bound.steps.get(loop.variable, 0)
