"""Plans of composites that a second process makes, against those of one."""

import json
import socket
from collections.abc import Iterator, Sequence

import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.helpers.lowering_assistant import LoweringAssistant, lowering_assistant
from accel.driver.helpers.plans_beside import BesidePlans
from accel.driver.quantisation_scheme import scheme_of
from accel.driver.run_options import Options
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.isa.family_registry import family_of, joined_cost
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.partition.composite_graph import CompositeGraph, read_graph
from accel.lowering.partition.graph_partition import JoinedPrices, Plan, RegionChoice, choose_regions
from examples.resnet8 import resnet8
from tests.helpers.models.build_models import imported


class _AllBeside(BesidePlans):
    """Waits for the other process, which so plans all but the composite that the job begins with."""

    made = 0

    def begin(self, names: Sequence[str]) -> None:
        super().begin(names)
        while self.made < len(names):
            self._take()
            self.made = len(self._plans)


class _NobodyBeside(BesidePlans):
    """Counts what was planned beside."""

    made = 0

    def find(self, name: str) -> Plan | None:
        found = super().find(name)
        self.made += found is not None
        return found


@pytest.fixture
def assistant() -> Iterator[LoweringAssistant]:
    with lowering_assistant() as one:
        if one is None:
            pytest.skip("there is one processor, or no fork")
        yield one


def _graph(accelerator: Accelerator) -> CompositeGraph:
    target = Target(accelerator)
    model = ensure_quantised(resnet8(), scheme=scheme_of(target, Options()))
    return read_graph(imported(model, accelerator).module, Capabilities.of(target))


def _chosen(target: Target, graph: CompositeGraph, beside: BesidePlans | None) -> RegionChoice:
    joined, cost = JoinedPrices(joined_cost(target.accelerator)), family_of(target.accelerator).tiling_cost
    return choose_regions(graph, Capabilities.of(target), cost, joined=joined, beside=beside)


@pytest.mark.parametrize("name", ["vta", "gemmini", "output-stationary"])
def test_regions_are_the_same_where_another_process_plans_most(name: str, assistant: LoweringAssistant) -> None:
    """So are the answers that are kept: a later job would ask again for what is missing, or be told otherwise."""
    accelerator = load_accelerator(name)
    graph, alone, target = _graph(accelerator), Target(accelerator), Target(accelerator)
    beside = _AllBeside(assistant, target, graph, joined=True)
    assert _chosen(target, graph, beside).dump() == _chosen(alone, graph, None).dump()
    assert beside.made > len(graph.composites) / 3
    here, there = (each.derived(kept_answers) for each in (alone, target))
    assert {each.question: each for each in there.given} == {each.question: each for each in here.given}
    known, found = (json.loads(Capabilities.of(each).dump()) for each in (alone, target))
    assert found.items() >= known.items()


def test_planning_ends_where_a_region_is_asked_for(assistant: LoweringAssistant) -> None:
    """A trial would wait for plans that nobody wants any more."""
    accelerator = load_accelerator("gemmini")
    graph, target = _graph(accelerator), Target(accelerator)
    beside = BesidePlans(assistant, target, graph, joined=False)
    beside.begin(list(graph.composites) * 1000)
    beside.end()
    assert assistant.lower(target, "no region").result(10).gone


@pytest.mark.parametrize(
    "sent", [b"", (8).to_bytes(8, "little") + b"nonsense", (7).to_bytes(8, "little") + b"cos\nnil"]
)
def test_a_process_that_fails_plans_nothing(sent: bytes) -> None:
    accelerator = load_accelerator("vta")
    graph, target = _graph(accelerator), Target(accelerator)
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        assistant = LoweringAssistant(ours)
        beside = _NobodyBeside(assistant, target, graph, joined=True)
        assert _chosen(target, graph, beside).dump() == _chosen(Target(accelerator), graph, None).dump()
        assert not beside.made
        assistant.close()
