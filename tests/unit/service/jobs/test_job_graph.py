"""Boxes of a job's graph: what is drawn as one, and what it costs."""

from typing import Any

from accel.report.documents.graph_documents import GraphNode, GraphTensor, ModelGraph
from service.jobs.job_graph import JobGraph, job_graph


def node(name: str, inputs: list[str], **more: Any) -> GraphNode:
    values = {"op": "Conv", "covers": [name], "outputs": [f"{name}_out"], "constants": 10} | more
    return GraphNode(name=name, inputs=inputs, **values)


def layer(name: str, nodes: list[str], **more: Any) -> dict[str, Any]:
    costs = {"cycles": 100, "lower_bound": 80, "macs": 640, "utilisation": 0.5, "bytes_read": 30, "bytes_written": 7}
    return {"name": name, "op": "conv2d", "nodes": nodes} | costs | more


def drawn(nodes: list[GraphNode], layers: list[dict[str, Any]], host: list[str], **more: Any) -> JobGraph:
    tensors = {name: GraphTensor(shape=[1], type="float32", bytes=4) for one in nodes for name in one.outputs}
    tensors["x"] = GraphTensor(shape=[2], type="int8", bytes=2)
    graph = ModelGraph(inputs=["x"], outputs=[nodes[-1].outputs[0]], tensors=tensors, nodes=nodes)
    ops = [{"node": name, "op": "Relu", "reason": f"why {name}"} for name in host]
    report = {"layers": layers, "host_ops": ops, "cycles": sum(one["cycles"] for one in layers)} | more
    return job_graph(graph, report)


def names(graph: JobGraph) -> list[tuple[str, list[str]]]:
    return [(box.kind, [one.name for one in box.nodes]) for box in graph.boxes]


def test_nodes_of_a_launch_are_one_box_and_launches_of_a_node_too() -> None:
    nodes = [node("a", ["x"]), node("b", ["a_out"]), node("c", ["b_out"])]
    graph = drawn(nodes, [layer("first", ["a", "b"]), layer("second", ["b"], cycles=300), layer("third", ["c"])], [])
    assert names(graph) == [("input", []), ("launch", ["a", "b"]), ("launch", ["c"]), ("output", [])]
    box = graph.boxes[1]
    assert (box.name, box.launches, box.constants) == ("first", [1, 2], 20)
    assert box.cost is not None
    assert (box.cost.cycles, box.cost.lower_bound, box.cost.share) == (400, 160, 0.8)
    assert (box.cost.bytes_read, box.cost.bytes_written, box.cost.macs) == (60, 14, 1280)
    assert box.cost.utilisation == 0.5
    assert (box.cost.begin, box.cost.end) == (0, 400)
    assert [(edge.source, edge.target, edge.tensor, edge.bytes) for edge in graph.edges] == [
        (0, 1, "x", 2),
        (1, 2, "b_out", 4),
        (2, 3, "c_out", 4),
    ]


def test_what_nothing_runs_is_with_its_neighbours() -> None:
    """At the front with its only reader, else with its only giver; between two givers it is a box of its own."""
    nodes = [
        node("front", ["x"]),
        node("a", ["front_out"]),
        node("after", ["a_out"]),
        node("again", ["after_out"]),
        node("b", ["again_out"]),
        node("join", ["a_out", "b_out"]),
        node("c", ["join_out"]),
        node("d", ["join_out"]),
        node("end", ["c_out", "d_out"]),
    ]
    graph = drawn(nodes, [layer(name, [name]) for name in "abcd"], ["end"])
    assert names(graph)[1:-1] == [
        ("launch", ["front", "a", "after", "again"]),
        ("launch", ["b"]),
        ("folded", ["join"]),
        ("launch", ["c"]),
        ("launch", ["d"]),
        ("host", ["end"]),
    ]


def test_a_node_may_run_in_both_places_and_steps_may_be_added() -> None:
    nodes = [node("a", ["x"], covers=["inner", "other"])]
    graph = drawn(nodes, [layer("first", ["inner"])], ["other", "x_quantized"])
    box = graph.boxes[1]
    assert (box.kind, box.nodes[0].reason) == ("launch", "why other")
    assert [one.name for one in graph.added] == ["x_quantized"]


def test_without_timing_there_are_no_cycles() -> None:
    graph = drawn([node("a", ["x"])], [layer("first", ["a"], cycles=0)], [], cycles=None)
    cost = graph.boxes[1].cost
    assert cost is not None
    assert (cost.cycles, cost.share, cost.lower_bound, cost.begin) == (None, None, None, None)
    assert cost.bytes_read == 30
