"""Plans of composites that a job's second process makes while the job makes others: they meet in the middle.

Planning is Python that drives TVM, as lowering is. The process begins at the last composite, as the job begins at the
first, and sends with each plan what it asked of the accelerator, so that later jobs find the same as if one had asked
for all. Which of the two plans a composite changes nothing.
"""

import pickle
import select
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from accel.accelerator.target import Target
from accel.isa.family_registry import family_of, joined_cost
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.kept_answers import GivenAnswer, kept_answers
from accel.lowering.partition.composite_graph import CompositeGraph, dump_graph, load_graph
from accel.lowering.partition.graph_partition import Plan, plan_composite
from accel.util.helper_process import receive_frame, send_frame

if TYPE_CHECKING:
    from accel.driver.helpers.lowering_assistant import LoweringAssistant


class PlanOrder(BaseModel):
    """What is to be planned.

    Attributes:
        graph: as :func:`dump_graph` has it.
        names: of the composites.
        joined: whether they are priced as launches that run as one.
    """

    graph: str
    names: list[str]
    joined: bool


@dataclass(frozen=True)
class _Planned:
    """The plan of a composite, and what was asked of the accelerator for it; ``known`` is of its capabilities."""

    name: str
    plan: Plan
    given: Sequence[GivenAnswer]
    known: bytes


class ArrivingPlans:
    """Plans that were asked for, as they come."""

    def __init__(self) -> None:
        self._arrived: list[_Planned] = []

    def receive(self, line: socket.socket) -> bool:
        """Takes plans until an empty frame; returns False if the line ends before."""
        while (frame := receive_frame(line)) is not None:
            if not frame:
                return True
            try:
                planned = pickle.loads(frame)  # noqa: S301 - of this program, in a process that this one forked
            except Exception:  # noqa: BLE001 - what comes of nonsense has no common base
                return False
            if not isinstance(planned, _Planned):
                return False
            self._arrived.append(planned)
        return False

    def give_up(self) -> None:
        """Takes it that there will be no more."""

    def take(self) -> list[_Planned]:
        """Returns those that have come since the last call."""
        taken = list(self._arrived)
        del self._arrived[: len(taken)]
        return taken


class BesidePlans:
    """The job's view of the plans that its assistant makes of a graph.

    Args:
        assistant: the process.
        target: what is planned for.
        graph: the composites.
        joined: whether they are priced as launches that run as one.
    """

    def __init__(self, assistant: "LoweringAssistant", target: Target, graph: CompositeGraph, *, joined: bool) -> None:
        self._assistant, self._target, self._graph, self._joined = assistant, target, graph, joined
        self._arriving: ArrivingPlans | None = None
        self._plans: dict[str, Plan] = {}

    def begin(self, names: Sequence[str]) -> None:
        """Has composites planned, the last first; what is begun already goes on."""
        if self._arriving is None and len(names) > 1:
            order = PlanOrder(graph=dump_graph(self._graph).decode(), names=list(names), joined=self._joined)
            self._arriving = self._assistant.plan(self._target, order)

    def find(self, name: str) -> Plan | None:
        """Returns the plan of a composite; None if it is not made yet."""
        self._take()
        return self._plans.get(name)

    def end(self) -> None:
        """Has no more planned, and takes what was answered till now."""
        if self._arriving is not None:
            self._assistant.end_planning()
            self._take()

    def _take(self) -> None:
        answers = self._target.derived(kept_answers)
        for planned in [] if self._arriving is None else self._arriving.take():
            answers.take(planned.given)
            Capabilities.of(self._target).recall(planned.known)
            self._plans[planned.name] = planned.plan


def plan_last_first(line: socket.socket, order: PlanOrder, target: Target) -> None:
    """Sends the plans of composites, the last first, until something else is asked for on the line.

    Raises:
        OSError: the other end is gone.
    """
    graph, capabilities, answers = (
        load_graph(order.graph.encode()),
        Capabilities.of(target),
        target.derived(kept_answers),
    )
    accelerator = target.accelerator
    cost, behind = family_of(accelerator).tiling_cost, joined_cost(accelerator) if order.joined else None
    for name in reversed(order.names):
        if select.select([line], [], [], 0)[0]:
            break
        given, asked = len(answers.given), len(capabilities.answers)
        plan = plan_composite(graph.composites[name], capabilities, cost, behind)
        planned = _Planned(name, plan, answers.given[given:], capabilities.dump_since(asked))
        send_frame(line, pickle.dumps(planned))
    send_frame(line, b"")
