"""The graph of a job's model with what each part of it costs: nodes that a launch fuses are one box."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pydantic
from pydantic import Field

from accel.report.documents.graph_documents import GraphNode, ModelGraph

BoxKind = Literal["launch", "host", "folded", "input", "output"]


class BoxCost(pydantic.BaseModel):
    """What the launches of a box take together."""

    cycles: int | None = Field(description="null: timing did not run")
    share: float | None = Field(description="of the program's cycles")
    lower_bound: int | None = Field(description="cycles that no order of the instructions goes below")
    macs: int
    utilisation: float = Field(description="multiply-accumulates a cycle, of those at best")
    bytes_read: int
    bytes_written: int
    begin: int | None = Field(description="the cycle of the program at which its first launch begins")
    end: int | None = Field(description="the cycle after its last launch")
    instructions: dict[str, int] = Field(
        description="cycles for which units were busy with each instruction of the document, most first; empty where "
        "timing did not run"
    )


class BoxNode(pydantic.BaseModel):
    """A node of the model within a box."""

    name: str
    op: str = Field(examples=["Conv"])
    reason: str | None = Field(description="why the host runs it, or a part of it; null: it does not")


class GraphBox(pydantic.BaseModel):
    """Nodes that are drawn as one."""

    kind: BoxKind = Field(
        description="`launch`: the accelerator runs it; `host`; `folded`: nothing runs it by itself, as it is a part "
        "of others, or does nothing; `input` and `output` of the model"
    )
    name: str = Field(description="of the layer, the node, the input or the output", examples=["conv1"])
    op: str | None = Field(description="of the layer or the node", examples=["conv2d"])
    launches: list[int] = Field(description="places in the report's `layers`, counted from 1")
    nodes: list[BoxNode]
    constants: int = Field(description="bytes of constants that the nodes read, as uploaded")
    cost: BoxCost | None = Field(description="null: the accelerator has no part in it")


class GraphEdge(pydantic.BaseModel):
    """A tensor that one box gives another."""

    source: int = Field(description="place of the box that gives it")
    target: int = Field(description="place of the box that reads it")
    tensor: str
    shape: list[int] | None = Field(description="null where it is not known", examples=[[1, 16, 32, 32]])
    type: str | None = Field(examples=["float32"])
    bytes: int | None


class JobGraph(pydantic.BaseModel):
    """The model as uploaded, box by box in its order, with the job's costs."""

    boxes: list[GraphBox]
    edges: list[GraphEdge]
    added: list[BoxNode] = Field(description="steps of the host that the model as uploaded does not have")


def job_graph(graph: ModelGraph, report: Mapping[str, Any]) -> JobGraph:
    """Returns the graph of a job.

    Nodes of one launch are one box, as are launches that share a node. A node that nothing runs is with the box that
    gives it all of its data, or else with the only one that reads it.

    Args:
        graph: of the model.
        report: of the job, as its model dumps it.
    """
    reasons = {op["node"]: op for op in report["host_ops"]}
    members: dict[str, list[GraphNode]] = {}
    for node, owner in zip(graph.nodes, _owners(graph.nodes, report["layers"], reasons), strict=True):
        members.setdefault(owner, []).append(node)
    launches: dict[str, list[int]] = {}
    for number, layer in enumerate(report["layers"], 1):
        for name in layer["nodes"]:
            launches.setdefault(name, []).append(number)
    boxes = [
        *(_end("input", name) for name in graph.inputs),
        *(_box(nodes, launches, report, reasons) for nodes in members.values()),
        *(_end("output", name) for name in graph.outputs),
    ]
    covered = {name for node in graph.nodes for name in node.covers}
    added = [
        BoxNode(name=name, op=op["op"], reason=op["reason"]) for name, op in reasons.items() if name not in covered
    ]
    return JobGraph(boxes=boxes, edges=_edges(graph, list(members.values())), added=added)


def _end(kind: Literal["input", "output"], name: str) -> GraphBox:
    return GraphBox(kind=kind, name=name, op=None, launches=[], nodes=[], constants=0, cost=None)


def _edges(graph: ModelGraph, members: Sequence[Sequence[GraphNode]]) -> list[GraphEdge]:
    """Each tensor once between two boxes; inputs come before the members, outputs after them."""
    giver = {name: place for place, name in enumerate(graph.inputs)}
    reads: list[tuple[int, str]] = []
    for place, nodes in enumerate(members, len(graph.inputs)):
        giver |= {name: place for node in nodes for name in node.outputs}
        reads += [(place, name) for node in nodes for name in node.inputs]
    reads += [(place, name) for place, name in enumerate(graph.outputs, len(graph.inputs) + len(members))]
    pairs = dict.fromkeys((giver[name], target, name) for target, name in reads if name in giver)
    return [
        GraphEdge(source=source, target=target, tensor=name, **graph.tensors[name].model_dump())
        for source, target, name in pairs
        if source != target
    ]


def _owners(nodes: Sequence[GraphNode], layers: Sequence[Mapping[str, Any]], reasons: Mapping[str, Any]) -> list[str]:
    """By node the name of what it is drawn with: of the first node of its box."""
    of_launch = _Joined()
    for layer in layers:
        of_launch.join([f"node {name}" for name in layer["nodes"]])
    run = {name for layer in layers for name in layer["nodes"]} | reasons.keys()
    owners: list[str] = []
    free = set()
    for number, node in enumerate(nodes):
        mine = [name for name in node.covers if name in run]
        if mine:
            of_launch.join([f"node {name}" for name in mine])
        else:
            free.add(number)
    for number, node in enumerate(nodes):
        known = next((name for name in node.covers if name in run), None)
        owners.append(f"free {number}" if known is None else of_launch.find(f"node {known}"))
    _give_away(nodes, owners, free)
    return owners


def _give_away(nodes: Sequence[GraphNode], owners: list[str], free: set[int]) -> None:
    """Put nodes that nothing runs into the boxes of their neighbours."""
    giver = {name: number for number, node in enumerate(nodes) for name in node.outputs}
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(number)
    for number in sorted(free):
        before = {owners[giver[name]] for name in nodes[number].inputs if name in giver}
        if len(before) == 1 and all(name in giver for name in nodes[number].inputs):
            owners[number] = before.pop()
            free = free - {number}
    for number in sorted(free, reverse=True):
        after = {owners[reader] for name in nodes[number].outputs for reader in readers.get(name, ())}
        if len(after) == 1:
            owners[number] = after.pop()


class _Joined:
    """Sets of names, which grow together."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Returns the name of its set."""
        while (above := self._above.get(name, name)) != name:
            self._above[name] = self._above.get(above, above)
            name = above
        return name

    def join(self, names: Sequence[str]) -> None:
        """Make one set of the sets of all names."""
        first, *others = map(self.find, names) if names else ("",)
        for other in others:
            self._above[other] = first


def _box(
    nodes: Sequence[GraphNode],
    launches: Mapping[str, Sequence[int]],
    report: Mapping[str, Any],
    reasons: Mapping[str, Any],
) -> GraphBox:
    covered = {name for node in nodes for name in node.covers}
    numbers = sorted({number for name in covered for number in launches.get(name, ())})
    layers = [report["layers"][number - 1] for number in numbers]
    on_host = covered.intersection(reasons)
    named = next((node for node in nodes if on_host.intersection(node.covers)), nodes[0])
    return GraphBox(
        kind="launch" if layers else "host" if on_host else "folded",
        name=layers[0]["name"] if layers else named.name,
        op=layers[0]["op"] if layers else named.op,
        launches=numbers,
        nodes=[BoxNode(name=node.name, op=node.op, reason=next(_reasons(node, reasons), None)) for node in nodes],
        constants=sum(node.constants for node in nodes),
        cost=_cost(numbers, report) if numbers else None,
    )


def _reasons(node: GraphNode, reasons: Mapping[str, Any]) -> Iterator[str]:
    return (reasons[name]["reason"] for name in node.covers if name in reasons)


def _cost(numbers: Sequence[int], report: Mapping[str, Any]) -> BoxCost:
    layers = [report["layers"][number - 1] for number in numbers]
    cycles = sum(layer["cycles"] for layer in layers)
    timed = report["cycles"] is not None
    at_best = sum(layer["macs"] / layer["utilisation"] for layer in layers if layer["utilisation"])
    macs = sum(layer["macs"] for layer in layers)
    return BoxCost(
        cycles=cycles if timed else None,
        share=cycles / report["cycles"] if report["cycles"] else None,
        lower_bound=sum(layer["lower_bound"] for layer in layers) if timed else None,
        macs=macs,
        utilisation=macs / at_best if at_best else 0.0,
        bytes_read=sum(layer["bytes_read"] for layer in layers),
        bytes_written=sum(layer["bytes_written"] for layer in layers),
        begin=sum(layer["cycles"] for layer in report["layers"][: numbers[0] - 1]) if timed else None,
        end=sum(layer["cycles"] for layer in report["layers"][: numbers[-1]]) if timed else None,
        instructions=_busy(layers),
    )


def _busy(layers: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Returns the cycles of each instruction in the layers, most first."""
    found: Counter[str] = Counter()
    for layer in layers:
        for unit in (layer.get("account") or {"units": {}})["units"].values():
            found.update(unit.get("busy", {}))
    return dict(found.most_common())
