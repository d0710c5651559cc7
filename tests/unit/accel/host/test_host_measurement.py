"""What is measured of a host: the numbers by which a clock of known costs goes, found again from its times alone."""

import numpy as np
import pytest

from accel.accelerator.host_costs import ElementRates, HostCosts
from accel.host.host_graph_reader import CheckedGraph
from accel.host.host_measurement import measure_host, time_graph
from accel.host.host_prices import operator_cycles
from accel.host.operator_work import graph_work
from service.cli.host_commands import measured_host

HOST = HostCosts(
    name="known",
    basis="assumed",
    source="a test",
    clock_mhz=1000.0,
    bytes_per_cycle=3.0,
    elements_per_cycle=ElementRates(elementwise=0.2, reduction=0.5, exponential=0.02, contraction=4.0, movement=0.1),
    operator_cycles=2000.0,
    launch_cycles=500.0,
    completion_cycles=200.0,
)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_known_costs_are_found_again(noise: float) -> None:
    """Within the grid's 7%, and with disturbed runs a little more: one run in eight takes twenty times as long."""
    random = np.random.default_rng(5)

    def run(graph: CheckedGraph) -> list[float]:
        (work,) = graph_work(graph)
        seconds = operator_cycles(work, HOST) / (HOST.clock_mhz * 1e6)
        return [seconds * (20 if noise and each == 3 else 1 + noise * random.random()) for each in range(8)]

    found = measured_host(measure_host(run), 2000.0, "found", HOST)
    near = pytest.approx(1, rel=0.12 + noise)
    assert found.operator_cycles / 4000 == near  # twice the clock: as many seconds are twice the cycles
    for kind, rate in HOST.elements_per_cycle:
        assert 2 * found.elements_per_cycle.of(kind) / rate == near
    assert (found.launch_cycles, found.completion_cycles, found.cache) == (1000, 400, None)
    assert found.basis == "measured"


def test_operators_run_as_host_steps_do() -> None:
    """Each graph that is timed can be run, by numpy or by onnxruntime; its work is of one class."""
    kinds: dict[str, set[str]] = {}

    def run(graph: CheckedGraph) -> list[float]:
        (work,) = graph_work(graph)
        kinds.setdefault(work.op, set()).update(work.elements)
        small = sum(np.prod(shape) for shape, _ in graph.graph.inputs.values()) < 10_000
        return time_graph(graph)[:1] if small else [1.0]

    measure_host(run)
    assert {kind for found in kinds.values() for kind in found} == set(ElementRates.model_fields)
    assert all(len(found) == 1 for found in kinds.values())
