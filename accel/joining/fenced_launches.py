"""Launches that become one on machines whose accesses of DRAM only the host can order: it waits between them, once.

For such a machine a store is done when its rows are sent, and a load of other rows of the chip may read the DRAM before
they arrive. So a fence stands in a launch that would read what was written since the last one, write what was read, or
write it again. What of the launch may run beside the end of the one before goes before the fence: the configuration and
the first loads of weights. They are sent where the machine's own order of instructions has them, among the last ones of
the launch before, and count as that one's; their origin is the layer that they are for.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from accel.isa.decode import Decoded, decode
from accel.isa.dram_stretches import Stretches
from accel.isa.family import Boxes, Family, FencesLaunches
from accel.isa.family_registry import arrangement_of
from accel.joining.launch_parts import MOST, LaunchPart, own_part
from accel.program.program_model import Launch, Program
from accel.util.arrays import Bools, Int64, Words
from accel.util.pending_work import PendingWork


@dataclass
class _Unordered:
    """Accesses of DRAM since the last fence: all, and those that write."""

    touched: list[Stretches] = field(default_factory=list)
    written: list[Stretches] = field(default_factory=list)

    def add(self, boxes: Boxes) -> None:
        self.touched.append(Stretches.of(boxes))
        self.written.append(Stretches.of(boxes.writes()))

    def must_follow(self, boxes: Boxes) -> Bools:
        """Returns which boxes (n,) touch what was written, or write what was touched."""
        found = np.zeros(len(boxes.begin), np.bool_)
        for stretches in self.written:
            found |= stretches.meet(boxes)
        for stretches in self.touched:
            found |= stretches.meet(boxes) & boxes.write
        return found


class FencedLaunches:
    """Joins the launches of a program, which it is given in their order."""

    def __init__(self, program: Program, family: Family) -> None:
        assert isinstance(family, FencesLaunches)
        fence = family.fence(program.accelerator)
        assert fence is not None
        self._program, self._family, self._fences, self._fence = program, family, family, fence
        self._arrange = arrangement_of(program.accelerator)
        self._context = family.first_context(program.accelerator, program.windows)
        self._open = _Unordered()
        self._ahead = np.zeros((0, *fence.shape), np.uint64)

    def parts(self, launches: Sequence[Launch]) -> list[LaunchPart]:
        """Returns the parts of the program's next launches with no host step between them."""
        with PendingWork[LaunchPart]("arrange") as arranging:
            found = self._parts(launches, arranging)
            return [each if isinstance(each, LaunchPart) else each.result() for each in found]

    def _parts(
        self, launches: Sequence[Launch], arranging: PendingWork[LaunchPart]
    ) -> list[LaunchPart | Future[LaunchPart]]:
        """The parts, of which some are arranged beside what follows."""
        found: list[LaunchPart | Future[LaunchPart]] = []
        before: tuple[LaunchPart, Decoded] | None = None
        total = 0
        for launch in launches:
            decoded, own = self._decoded(launch), own_part(self._program, launch, joined=False)
            boxes = self._family.boxes(decoded)
            if before is None or launch.writes or total + launch.count >= MOST:
                self._open, self._ahead, total = _Unordered(), own.words[:0], 0
                found.append(own)
            else:
                whole, own = self._joined(*before, replace(own, joined=True), decoded, boxes, arranging)
                found[-1:] = [whole, own]
            self._open.add(boxes)
            total += launch.count + 1
            before = own, decoded
        return found

    def _decoded(self, launch: Launch) -> Decoded:
        """A launch with what it finds in the registers."""
        words = self._program.words[launch.begin : launch.begin + launch.count]
        decoded = replace(decode(self._program.accelerator, words, launch.begin), context=self._context)
        self._context = self._family.next_context(decoded)
        return decoded

    def _joined(
        self,
        last: LaunchPart,
        before: Decoded,
        own: LaunchPart,
        launch: Decoded,
        boxes: Boxes,
        arranging: PendingWork[LaunchPart],
    ) -> tuple[LaunchPart | Future[LaunchPart], LaunchPart]:
        """The part of the launch before, and that of a launch which runs on from it."""
        late = np.zeros(len(launch), np.bool_)
        late[boxes.instruction[self._open.must_follow(boxes)]] = True
        if not late.any() and self._fences.runs_on(before, launch):
            self._ahead = own.words[:0]
            return last, own
        self._open = _Unordered()
        early = self._fences.early(launch, late)
        whole: LaunchPart | Future[LaunchPart] = last
        if early.any():
            whole = arranging.add(partial(self._with, last, own, early, self._ahead))
        self._ahead = own.words[early]
        words = np.concatenate([self._fence[None], own.words[~early]])
        return whole, replace(own, words=words, origin=np.concatenate([own.origin[:1], own.origin[~early]]))

    def _with(self, last: LaunchPart, own: LaunchPart, early: Bools, ahead: Words) -> LaunchPart:
        """The part of a launch with the first instructions of the one behind it; ``ahead`` are its own."""
        words, origin = (
            np.concatenate([some, others[early]])
            for some, others in ((last.words, own.words), (last.origin, own.origin))
        )
        if self._arrange is not None:
            # what was sent ahead of the launch is what it finds in the registers: it goes first again
            ahead = np.concatenate([ahead, self._fence[None]])
            _, places = self._arrange(np.concatenate([ahead, words]))
            order = _inserted(places[len(ahead) :] - len(ahead), len(last.words), self._units(words))
            words, origin = words[order], origin[order]
        return replace(last, words=words, origin=origin)

    def _units(self, words: Words) -> Int64:
        """The unit (n,) of each instruction, as a number."""
        accelerator = self._program.accelerator
        units = {name: number for number, name in enumerate({each.unit for each in accelerator.instructions})}
        return np.array([units[each.unit] for each in accelerator.instructions])[decode(accelerator, words, 0).kind]


def _inserted(arranged: Int64, count: int, units: Int64) -> Int64:
    """The order (n,) of instructions that keeps the first ``count``, and has the others where another order has them.

    Each of the others goes behind all of the first ones that are before it in the order ``arranged`` (n,), in which
    each unit has its own instructions one after the other.
    """
    own = np.where(arranged < count, arranged, -1)
    behind = np.full(len(arranged), -1)
    for unit in np.unique(units):
        behind = np.maximum(behind, np.maximum.accumulate(np.where(units[arranged] == unit, own, -1)))
    added = arranged >= count
    return np.insert(np.arange(count), behind[added] + 1, arranged[added])
