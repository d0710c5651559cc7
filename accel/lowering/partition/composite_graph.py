"""What the choice of regions reads of an integer graph, as data: it can be chosen again without the graph."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter
from tvm import ir, relax

from accel.frontend.integer_recovery.composite_functions import is_table
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, read_composite
from accel.lowering.analysis.dataflow import CompositeUse, composite_uses, lower_bounds_of_operands
from accel.lowering.analysis.float_units import runs_programs
from accel.lowering.kinds.registry import OPERATORS
from accel.lowering.partition.pooling_fusion import PooledPair, pooled_pairs
from accel.lowering.partition.residual_fusion import ResidualPair, residual_pairs


@dataclass(frozen=True)
class PlacedComposite:
    """A composite, its use, and the least value that its first operand can have."""

    composite: CompositeRegion
    use: CompositeUse
    lowest: int


@dataclass(frozen=True)
class CompositeGraph:
    """The composites that an accelerator may run, in the order of their calls.

    Attributes:
        composites: by name.
        pairs: additions with a contraction that could be one region, by the name of the addition.
        pooled: max poolings with a convolution that could be, by the name of the pooling.
        reasons: why the host has composites that the accelerator might run, or that it cannot; by name.
    """

    composites: dict[str, PlacedComposite]
    pairs: dict[str, ResidualPair]
    pooled: dict[str, PooledPair]
    reasons: dict[str, str]


_GRAPH = TypeAdapter(CompositeGraph)


def read_graph(
    module: ir.IRModule, capabilities: Capabilities, host_nodes: Mapping[str, str] | None = None
) -> CompositeGraph:
    """Returns what there is to choose of an integer graph; nothing in it depends on how long things take.

    Args:
        module: the integer graph.
        capabilities: what the accelerator can do.
        host_nodes: nodes of the model that the host shall run, with why; and with each all of its composite.
    """
    lowest = lower_bounds_of_operands(module)
    uses = composite_uses(module, OPERATORS, lowest, by_programs=runs_programs(capabilities.target))
    composites = {name: PlacedComposite(read_composite(module[name]), use, lowest[name]) for name, use in uses.items()}
    reasons = _left_to_host(module, capabilities, host_nodes or {})
    return CompositeGraph(composites, residual_pairs(module, capabilities), pooled_pairs(module, capabilities), reasons)


def dump_graph(graph: CompositeGraph) -> bytes:
    """Returns the graph as JSON."""
    return _GRAPH.dump_json(graph)


def load_graph(data: bytes) -> CompositeGraph:
    """Returns what :func:`dump_graph` was given.

    Raises:
        ValueError: it is none.
    """
    return _GRAPH.validate_json(data)


def _left_to_host(module: ir.IRModule, capabilities: Capabilities, host_nodes: Mapping[str, str]) -> dict[str, str]:
    """Why the host has composites that the accelerator might run, or that it cannot."""
    reasons = {}
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function) or function.attrs is None or "op" not in function.attrs:
            continue
        if is_table(function):
            title = capabilities.accelerator.title
            if (cause := function.attrs.get("cause")) is not None:
                reasons[str(variable.name_hint)] = f"{cause}; the host looks it up in a table, in int8"
                continue
            reasons[str(variable.name_hint)] = (
                f"it is a table of 256 entries, and the document of {title} has no instruction that looks up a table; "
                "the host looks it up, in int8"
            )
        elif str(function.attrs["op"]) not in OPERATORS:
            cause = str(function.attrs["cause"])
            product = str(function.attrs["op"]) == "product"
            text = "the host multiplies, in integers" if product else requantisation_text(capabilities)
            reasons[str(variable.name_hint)] = f"{cause}; {text}"
        elif left := [host_nodes[str(node)] for node in function.attrs["nodes"] if str(node) in host_nodes]:
            reasons[str(variable.name_hint)] = left[0]
    return reasons


def requantisation_text(capabilities: Capabilities) -> str:
    """How the accelerator comes from int32 to int8, in words."""
    title = capabilities.accelerator.title
    if capabilities.scales:
        return f"{title} requantises to int8 by one float scale a tensor"
    if capabilities.store("int8") is None:
        return f"{title} leaves int32, which the host requantises"
    multiplying = "multiplying, " if capabilities.multiplies else ""
    return f"{title} requantises to int8 by {multiplying}adding and shifting"
