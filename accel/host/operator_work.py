"""What the operators of a host graph have to do, counted: elements by class of operator, and bytes of memory.

A node is counted as if it ran by itself, with its operands and results in memory, as the executor runs it. Movements in
a row are one, as their addresses are composed in one loop. What a compiler would do beforehand, on constants alone, and
what only gives a tensor another shape, is nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from accel.accelerator.host_costs import OperatorClass
from accel.host.host_graph import HostNode
from accel.host.host_graph_reader import CheckedGraph
from accel.host.host_operators import label_extents
from accel.host.json_fields import Tensor, element_bytes

Types = Mapping[str, Tensor]
Elements = dict[OperatorClass, int]


@dataclass(frozen=True)
class OperatorWork:
    """The elements that a node computes, by class, and the bytes that it reads and writes."""

    op: str
    elements: Elements = field(default_factory=dict)
    nbytes: int = 0

    @property
    def moves(self) -> bool:
        """Whether it moves elements and computes none."""
        return set(self.elements) == {"movement"}


def operations(works: Iterable[OperatorWork]) -> int:
    """Returns the arithmetic of nodes: two operations of each multiply-accumulate, one of each other element.

    Movement is none, and neither is a change of type.
    """
    per_element: dict[OperatorClass, int] = {"movement": 0, "contraction": 2}
    return sum(
        per_element.get(kind, 1) * count for work in works if work.op != "Cast" for kind, count in work.elements.items()
    )


def graph_work(checked: CheckedGraph) -> list[OperatorWork]:
    """Returns the work of each node that has any, in the graph's order."""
    known = set(checked.graph.constants)
    found: dict[str, tuple[HostNode, OperatorWork]] = {}  # by its first result
    source: dict[str, str] = {}  # what a tensor is another shape of
    for node in checked.graph.nodes:
        if all(name in known for name in node.inputs if name):
            known.update(node.outputs)
        elif node.op in _VIEWS:
            source.update(dict.fromkeys(node.outputs, source.get(node.inputs[0], node.inputs[0])))
        else:
            found[next(filter(None, node.outputs))] = node, node_work(node, checked.types)
    readers: dict[str, list[OperatorWork | None]] = {}
    for node, work in found.values():
        for name in dict.fromkeys(source.get(name, name) for name in node.inputs):
            readers.setdefault(name, []).append(work)
    for name in checked.graph.outputs:
        readers.setdefault(source.get(name, name), []).append(None)
    return [work for name, (node, work) in found.items() if not _goes_on(node, work, readers.get(name, []))]


def _goes_on(node: HostNode, work: OperatorWork, readers: Sequence[OperatorWork | None]) -> bool:
    """Whether a node only moves elements, for one other node that only moves them on."""
    (*_, last) = readers or [None]
    return work.moves and len(node.outputs) == len(readers) == 1 and last is not None and last.moves


def node_work(node: HostNode, types: Types) -> OperatorWork:
    """Returns the work of a node by itself."""
    rule = _RULES.get(node.op, _elementwise)
    elements = {kind: count for kind, count in rule(node, types).items() if count}
    return OperatorWork(node.op, elements, _bytes(node, types, moves=set(elements) == {"movement"}))


def _bytes(node: HostNode, types: Types, *, moves: bool) -> int:
    """Each operand once and each result; what only moves elements reads no more than it writes."""
    read = sum(_nbytes(types[name]) for name in dict.fromkeys(node.inputs) if name)
    made = sum(_nbytes(types[name]) for name in node.outputs if name)
    return made + (min(read, made) if moves else read)


def _nbytes(tensor: Tensor) -> int:
    return math.prod(tensor[0]) * element_bytes(tensor[1])


def _made(node: HostNode, types: Types) -> int:
    return sum(math.prod(types[name][0]) for name in node.outputs if name)


def _shape(node: HostNode, types: Types, place: int = 0) -> tuple[int, ...]:
    return types[node.inputs[place]][0]


def _read(node: HostNode, types: Types) -> int:
    """Elements of the first operand."""
    return math.prod(_shape(node, types))


def _elementwise(node: HostNode, types: Types) -> Elements:
    operands = sum(1 for name in node.inputs if name)
    steps = max(operands - 1, 1) if node.op in _OF_MANY else 1
    return {"elementwise": steps * _made(node, types)}


def _exponential(node: HostNode, types: Types) -> Elements:
    return {"exponential": _made(node, types)}


def _movement(node: HostNode, types: Types) -> Elements:
    return {"movement": _made(node, types)}


def _reduction(node: HostNode, types: Types) -> Elements:
    return {"reduction": _read(node, types)}


def _softmax(node: HostNode, types: Types) -> Elements:
    """A maximum and a sum; a difference and a quotient; a function."""
    count = _read(node, types)
    return {"reduction": 2 * count, "elementwise": 2 * count, "exponential": count}


def _norm(node: HostNode, types: Types) -> Elements:
    """Two sums; a difference, two products and a sum of each element."""
    count = _read(node, types)
    return {"reduction": 2 * count, "elementwise": 4 * count}


def _log_sum(node: HostNode, types: Types) -> Elements:
    count = _read(node, types)
    inner = count if node.op == "ReduceLogSumExp" else 0
    return {"reduction": count, "exponential": inner + _made(node, types)}


def _ranges(node: HostNode, types: Types) -> Elements:
    """Least and largest element, then a product, a rounding and a cut."""
    count = _read(node, types)
    return {"reduction": 2 * count, "elementwise": 3 * count}


def _window(node: HostNode, types: Types) -> Elements:
    return {"reduction": math.prod(types[node.outputs[0]][0]) * math.prod(node.attributes.get("kernel_shape", [1]))}


def _neighbours(node: HostNode, types: Types) -> Elements:
    """A local response: squares summed over channels beside, and a power of each."""
    count = _read(node, types)
    return {"reduction": count * int(node.attributes.get("size", 1)), "exponential": count, "elementwise": count}


def _sorted(node: HostNode, types: Types) -> Elements:
    """A heap along the axis."""
    axis = int(node.attributes.get("axis", -1))
    kept = types[node.outputs[0]][0][axis]
    return {"reduction": _read(node, types) * max(math.ceil(math.log2(kept + 1)), 1)}


def _resized(node: HostNode, types: Types) -> Elements:
    """Products and sums of the neighbours of each result; the nearest one alone is moved."""
    mode = str(node.attributes.get("mode", "nearest" if node.op == "Resize" else "linear"))
    if mode == "nearest":
        return _movement(node, types)
    inner = len(_shape(node, types)) - 2
    taps = (4 if "cubic" in mode else 2) ** max(inner, 1)
    return {"elementwise": 2 * taps * _made(node, types)}


def _regions(node: HostNode, types: Types) -> Elements:
    samples = max(int(node.attributes.get("sampling_ratio", 0)), 2) ** 2
    return {"elementwise": 8 * samples * _made(node, types)}


def _convolution(node: HostNode, types: Types) -> Elements:
    weights = math.prod(_shape(node, types, 1)[1:])
    count = _read(node, types) if node.op == "ConvTranspose" else math.prod(types[node.outputs[0]][0])
    return {"contraction": count * weights}


def _product(node: HostNode, types: Types) -> Elements:
    shape = _shape(node, types)
    depth = shape[0] if node.attributes.get("transA", 0) else shape[-1]
    return {"contraction": math.prod(types[node.outputs[0]][0]) * depth}


def _einsum(node: HostNode, types: Types) -> Elements:
    return {"contraction": math.prod(label_extents(node, types).values())}


Rule = Callable[[HostNode, Types], Elements]
_OF_MANY = frozenset(("Max", "Mean", "Min", "Sum"))
_VIEWS = frozenset(("Dropout", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"))
_NORMS = (
    "GroupNormalization InstanceNormalization LayerNormalization LpNormalization MeanVarianceNormalization "
    "RMSNormalization"
)
_FUNCTIONS = (
    "Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu Log Mish Pow Selu Sigmoid Sin Sinh Softplus Swish "
    "Tan Tanh"
)
_MOVES = (
    "Concat ConstantOfShape DepthToSpace Expand EyeLike Gather GatherElements GatherND OneHot Pad ScatterElements "
    "ScatterND Slice SpaceToDepth Split Tile Transpose Trilu"
)
_SUMS = (
    "ArgMax ArgMin CumSum GlobalAveragePool GlobalLpPool GlobalMaxPool Hardmax ReduceL1 ReduceL2 ReduceMax ReduceMean "
    "ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_FUNCTIONS.split(), _exponential),
    **dict.fromkeys(_MOVES.split(), _movement),
    **dict.fromkeys(_SUMS.split(), _reduction),
    **dict.fromkeys(_NORMS.split(), _norm),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _window),
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose"), _convolution),
    **dict.fromkeys(("Gemm", "MatMul", "MatMulInteger"), _product),
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), _log_sum),
    **dict.fromkeys(("GridSample", "Resize"), _resized),
    "BatchNormalization": lambda node, types: {"elementwise": 2 * _read(node, types)},
    "DynamicQuantizeLinear": _ranges,
    "Einsum": _einsum,
    "LRN": _neighbours,
    "RoiAlign": _regions,
    "TopK": _sorted,
}
