"""As many nodes as the limits allow take a time that is linear in them.

What compares each node with all takes 64 times as long for eight times the nodes. The limit lies between that and 8, a
factor of nearly three from each, as a busy machine's times of one piece of work differ by a factor of two. Times are of
the processor, and the least of several.
"""

import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.frontend.fold.layer_folding import fold_layers
from accel.frontend.onnx_model.model_limits import LIMITS
from accel.frontend.onnx_model.node_origins import note_origins
from accel.frontend.onnx_model.onnx_nodes import name_nodes
from accel.host.host_graph import HostGraph, HostNode
from accel.host.host_graph_reader import check_graph
from tests.helpers.models.exported_files import constant, info, model, node, untyped

MOST = 4900
assert LIMITS.nodes > MOST
FEW = MOST // 8
GROWTH = 20.0  # of the time, for eight times the nodes


def chain(count: int, op: str, *more: str) -> onnx.ModelProto:
    """Nodes one behind the other; ``more`` are further operands."""
    nodes = [node(op, [f"t{at}", *more], [f"t{at + 1}"]) for at in range(count)]
    factors = [constant("f", np.full(4, 0.99), np.float32), constant("w", np.eye(4), np.float32)]
    made = model(nodes, [info("t0", 1, 4)], [untyped(f"t{count}")], [each for each in factors if each.name in more])
    name_nodes(made)
    return made


def layers(count: int) -> onnx.ModelProto:
    """Products, each with a factor behind it that becomes part of its weights."""
    made = chain(count, "MatMul", "w")
    for at in range(1, count, 2):
        made.graph.node[at].op_type = "Mul"
        made.graph.node[at].input[1] = "f"
    made.graph.initializer.append(constant("f", np.full(4, 0.99), np.float32))
    return made


def folding(make: Callable[[int], onnx.ModelProto]) -> Callable[[int], Callable[[], object]]:
    return lambda count: lambda: fold_layers(make(count))


def reading(count: int) -> Callable[[], object]:
    nodes = tuple(HostNode("Relu", (f"t{at}",), (f"t{at + 1}",), {}) for at in range(count))
    graph = HostGraph(17, {"t0": ((1, 4), "float32")}, {}, nodes, (f"t{count}",))
    return lambda: check_graph(graph)


def noting(count: int) -> Callable[[], object]:
    """Every other node is gone, as if it had been folded into the one behind it."""
    original, optimised = chain(count, "Relu"), chain(count, "Relu")
    for at in reversed(range(0, count, 2)):
        optimised.graph.node[at + 1].input[0] = f"t{at}"
        del optimised.graph.node[at]
    return lambda: note_origins(optimised, original)


STEPS = {
    "sums": folding(lambda count: chain(count, "Sum", "t0")),
    "layers": folding(layers),
    "a host step": reading,
    "origins": noting,
}


def seconds(run: Callable[[], object], repeats: int = 3) -> float:
    def once() -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    return min(once() for _ in range(repeats))


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_eight_times_the_nodes_take_about_eight_times_the_time(name: str) -> None:
    few, many = (seconds(STEPS[name](count)) for count in (FEW, MOST))
    assert many < GROWTH * few


@pytest.mark.slow
def test_a_flood_of_nodes_is_planned_in_a_time_that_is_linear() -> None:
    """All of reading, quantising, importing and partitioning."""
    accelerator = load_accelerator("vta-pynq")

    def planning(count: int) -> Callable[[], object]:
        data = chain(count, "Relu").SerializeToString()
        return lambda: plan_model(data, accelerator)

    planning(1)()  # the compiler is loaded
    few, many = seconds(planning(FEW)), seconds(planning(MOST), repeats=1)
    assert many < GROWTH * few
