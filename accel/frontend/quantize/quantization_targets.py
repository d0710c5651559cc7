"""The choice of operators of a float model, and of their tensors, to quantise."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from accel.errors import InvalidModel
from accel.frontend.legalize.recurrent_cells import RECURRENT
from accel.frontend.onnx_model.external_data import all_finite, array_of
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.onnx_model.shape_inference import without_weights
from accel.util.arrays import Array

_MATRIX = 2  # axes
_PLACES = (3, 4)  # axes of lines and images
_KERNELS = (*_PLACES, 5)  # and of volumes
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_WEIGHTED = (*_CONVOLUTIONS, "Gemm", "MatMul")
_ADDITIONS = ("Add", "Max", "Min", "Sub", "Sum")
_STEPWISE = frozenset(RECURRENT)
_CLIPPED_MOVES = ("Flatten", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")  # with the relu behind them
_MOVES = (
    *_CLIPPED_MOVES, "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Resize",
    "Slice", "SpaceToDepth", "Split", "Tile",
)  # fmt: skip
_SOFTMAX = ("Exp", "LogSoftmax", "ReduceLogSumExp", "Softmax")  # and what one may be written as
_AHEAD_OF_SOFTMAX = (*_MOVES, *_ADDITIONS, "Cast", "Clip", "Concat", "Div", "Mul", "ReduceMax", "Where")
_MASKED = 1e4  # no bias is as large, and each number of an attention mask is, or is 0


@dataclass(frozen=True)
class WeightedNode:
    """A Conv, ConvTranspose, Gemm or MatMul with constant weights.

    ``weight`` has the node's own layout. ``bias`` is [O], from the node or from the Add ``bias_add`` behind it.
    """

    node: onnx.NodeProto
    weight: Array
    bias: Array | None
    bias_add: onnx.NodeProto | None = None

    @property
    def groups(self) -> int:
        """Groups of channels."""
        return int(attribute_of(self.node, "group", 1))

    @property
    def input_axis(self) -> int:
        """The axis of the data's channels."""
        return 1 if self.node.op_type in _CONVOLUTIONS else -1

    @property
    def channel_axis(self) -> int:
        """The axis of the weight's output channels, or of those of a group."""
        if self.node.op_type == "Conv" or (self.node.op_type == "Gemm" and attribute_of(self.node, "transB", 0)):
            return 0
        return 1

    @property
    def has_channels(self) -> bool:
        """Whether each output channel has weights of its own along :attr:`channel_axis`."""
        return self.node.op_type != "ConvTranspose" or self.groups == 1

    @property
    def rows(self) -> Array:
        """The weight with its output channels, or those of a group, in front."""
        return np.moveaxis(self.weight, self.channel_axis, 0)

    def of_rows(self, rows: Array) -> Array:
        """Returns what is laid out as :attr:`rows` as the weight is."""
        return np.moveaxis(rows, 0, self.channel_axis)

    @property
    def group_rows(self) -> Array:
        """The weight [groups, sums of a group, inputs]; each tap of a ConvTranspose makes a sum of its own."""
        if self.node.op_type == "ConvTranspose":
            return self.weight.reshape(self.groups, len(self.weight) // self.groups, -1).swapaxes(1, 2)
        return self.rows.reshape(self.groups, len(self.rows) // self.groups, -1)

    def of_group_rows(self, rows: Array) -> Array:
        """Returns what is laid out as :attr:`group_rows` as the weight is."""
        if self.node.op_type == "ConvTranspose":
            return rows.swapaxes(1, 2).reshape(self.weight.shape)
        return self.of_rows(rows.reshape(self.rows.shape))

    def along_channels(self, values: Array) -> Array:
        """Returns one number, or one for each of :attr:`rows`, shaped to broadcast with the weight."""
        shape = [1] * self.weight.ndim
        shape[self.channel_axis] = -1
        return values.reshape(shape)

    def mean_sums(self, weights: Array, means: Array) -> Array:
        """Returns what the layer with ``weights`` makes of data that are ``means`` everywhere; float64 [O].

        Windows that reach over the edges count as the others do. Of transposed convolutions it is the mean over the
        results, which are sums of different taps.
        """
        if self.node.op_type not in _CONVOLUTIONS:
            sums: Array = np.moveaxis(weights, self.channel_axis, 0) @ means
            return sums
        of_groups = means.reshape(self.groups, -1)
        if self.node.op_type == "Conv":
            rows = weights.reshape(self.groups, len(weights) // self.groups, -1)
            return np.asarray(
                np.einsum("gok,gk->go", rows, np.repeat(of_groups, math.prod(weights.shape[2:]), 1)).reshape(-1)
            )
        taps = weights.reshape(self.groups, of_groups.shape[1], weights.shape[1], -1).sum(3, np.float64)
        spread = math.prod(attribute_of(self.node, "strides", None) or [1])
        return np.asarray(np.einsum("gio,gi->go", taps / spread, of_groups).reshape(-1))


@dataclass(frozen=True)
class Average:
    """A mean of ``count`` elements of its ``source`` in every element of its ``result``."""

    source: str
    result: str
    count: int


@dataclass(frozen=True)
class Targets:
    """The operators and tensors to quantise.

    ``activations`` are the tensors that get a scale. ``moves`` are pairs of them where the second only holds elements
    of the first, and perhaps zeros, so that one scale serves both; in the order of the graph. ``joins`` are the
    operands of each concatenation and its result, which have one scale too. ``additions`` are all operators whose
    operands' scales must differ by powers of two. ``gates`` are products of an image and one factor a channel that the
    host computes in integers, whatever their scales. ``products`` are those of two matrices of activations, whose
    results get a scale only for what follows. ``ends`` are the tensors that operators are requantised to, by their
    first results.
    """

    layers: tuple[WeightedNode, ...]
    additions: tuple[onnx.NodeProto, ...]
    activations: tuple[str, ...]
    moves: tuple[tuple[str, str], ...]
    averages: tuple[Average, ...] = ()
    joins: tuple[tuple[str, ...], ...] = ()
    ends: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[onnx.NodeProto, ...] = ()
    products: tuple[onnx.NodeProto, ...] = ()


def find_targets(model: onnx.ModelProto, *, float_products: bool = False, within: Collection[str] = ()) -> Targets:
    """Returns the operators and tensors to quantise in ``model``, whose constants are initializers.

    ``float_products``: products of two activations are none of them. ``within`` are nodes of functions that stay whole.
    """
    finder = _Finder(model, float_products=float_products, within=within)
    return finder.targets()


class _Finder:
    def __init__(self, model: onnx.ModelProto, *, float_products: bool, within: Collection[str]) -> None:
        graph = model.graph
        self._within = within
        self._float_products = float_products
        self._nodes = list(graph.node)
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._outputs = {output.name for output in graph.output}
        self._ends: dict[str, str] = {}  # of tensors that relus and clips follow
        self._uses = Counter(name for node in self._nodes for name in node.input)
        self._users: dict[str, list[onnx.NodeProto]] = {}
        for node in self._nodes:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._softmax: set[int] = set()  # the nodes, by identity, of which nothing but a softmax comes
        for node in reversed(self._nodes):
            ahead = node.op_type in _AHEAD_OF_SOFTMAX and all(map(self._is_for_softmax, node.output))
            if ahead or node.op_type in _SOFTMAX:
                self._softmax.add(id(node))
        shapes = [*graph.value_info, *graph.input, *graph.output]
        inferred = onnx.shape_inference.infer_shapes(without_weights(model)).graph.value_info
        self._types = {info.name: info.type.tensor_type for info in (*shapes, *inferred)}

    def targets(self) -> Targets:
        layers = [layer for node in self._nodes if (layer := self._layer(node)) is not None]
        biased = {layer.bias_add.name for layer in layers if layer.bias_add is not None}
        additions = [node for node in self._nodes if self._is_addition(node) and node.name not in biased]
        found = [name for layer in layers for name in (layer.node.input[0], self._end(layer.bias_add or layer.node))]
        found += [name for node in additions for name in (*node.input, self._end(node))]
        products = [node for node in self._nodes if self._is_product(node)]
        found += [str(name) for node in products for name in node.input]
        averages = [average for node in self._nodes if (average := self._average(node)) is not None]
        found += [name for average in averages for name in (average.source, average.result)]
        known = self._with_carried(dict.fromkeys(found))
        gates = [node for node in self._nodes if self._is_gate(node) and self._end(node) in known]
        known = self._with_carried(known | dict.fromkeys(str(name) for node in gates for name in node.input))
        shared = tuple(pair for node in self._nodes for pair in self._moves(node) if known.keys() >= {*pair})
        joins = tuple(join for node in self._nodes if (join := self._joined(node)) and join[0] in known)
        ends = {str(node.output[0]): end for node in self._nodes if node.output and (end := self._end(node)) in known}
        return Targets(
            tuple(layers),
            tuple(additions),
            tuple(known),
            shared,
            tuple(averages),
            joins,
            ends,
            tuple(gates),
            tuple(products),
        )

    def _with_carried(self, known: dict[str, None]) -> dict[str, None]:
        """``known``, and what gets a scale because of them: what is made of them, or they of it, without arithmetic.

        A clip alone carries a scale forwards.
        """
        carried: dict[str, list[str]] = {}
        for node in self._nodes:
            if node.input and self._is_clip(node):
                carried.setdefault(str(node.input[0]), []).append(self._end(node))
            for first, *others in (*self._moves(node), self._joined(node) or ("",)):
                for other in others:
                    carried.setdefault(first, []).append(other)
                    carried.setdefault(other, []).append(first)
        found, pending = dict(known), list(known)
        while pending:
            more = dict.fromkeys(name for name in carried.get(pending.pop(), ()) if name not in found)
            found |= more
            pending += more
        return found

    def _moves(self, node: onnx.NodeProto) -> list[tuple[str, str]]:
        """Pairs of a tensor and one that holds elements of it, in the order of the node's results; none of others."""
        if node.op_type not in _MOVES or not self._activations([str(node.input[0])]) or not self._only_moves(node):
            return []
        made = [self._end(node)] if node.op_type in _CLIPPED_MOVES else [str(name) for name in node.output if name]
        return [(str(node.input[0]), name) for name in made]

    def _only_moves(self, node: onnx.NodeProto) -> bool:
        """Whether each element of the results is one of the first operand, or 0."""
        mode = attribute_of(node, "mode", b"")
        if node.op_type == "MaxPool":  # of equal integers another may be the first
            return len(node.output) == 1 or not node.output[1]
        if node.op_type == "Resize":
            crops = attribute_of(node, "coordinate_transformation_mode", b"") == b"tf_crop_and_resize"
            return mode in (b"", b"nearest") and not crops
        if node.op_type == "Pad" and mode in (b"", b"constant") and len(node.input) > 2 and node.input[2]:
            filling = self._constants.get(node.input[2])
            return filling is not None and not array_of(filling).any()
        return True

    def _joined(self, node: onnx.NodeProto) -> tuple[str, ...]:
        """The operands and the result of a concatenation of activations; none of any other node."""
        names = [str(name) for name in node.input]
        return (*names, self._end(node)) if node.op_type == "Concat" and self._activations(names) else ()

    def _activations(self, names: Sequence[str]) -> bool:
        """Whether all are float32 and none is constant."""
        return all(
            name not in self._constants
            and name in self._types
            and self._types[name].elem_type == onnx.TensorProto.FLOAT
            for name in names
        )

    def _layer(self, node: onnx.NodeProto) -> WeightedNode | None:
        weight = self._constant(node.input[1]) if node.op_type in _WEIGHTED else None
        if weight is None or weight.dtype != np.float32 or node.input[0] in self._constants:
            return None
        if node.op_type in _CONVOLUTIONS:
            has_bias = len(node.input) > 2 and node.input[2] != ""
            bias = self._constant(node.input[2]) if has_bias else None
            known = weight.ndim in _KERNELS and (bias is not None or not has_bias)
            return WeightedNode(node, weight, bias) if known else None
        return self._gemm(node, weight) if node.op_type == "Gemm" else self._matmul(node, weight)

    def _gemm(self, node: onnx.NodeProto, weight: Array) -> WeightedNode | None:
        """A Gemm with alpha and beta multiplied into its constants."""
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        columns = weight.shape[0 if attributes.get("transB") else 1]
        has_bias = len(node.input) > 2 and node.input[2] != ""
        bias = self._constant(node.input[2]) if has_bias else None
        if attributes.get("transA") or (has_bias and (bias is None or bias.size not in (1, columns))):
            return None
        if bias is not None and bias.size > 1 and bias.shape[-1] != columns:
            return None  # one value a row
        if bias is not None:
            bias = np.broadcast_to(bias.reshape(-1) * np.float32(attributes.get("beta", 1.0)), (columns,))
        alpha = np.float32(attributes.get("alpha", 1.0))
        return WeightedNode(node, weight if alpha == 1 else weight * alpha, bias)

    def _matmul(self, node: onnx.NodeProto, weight: Array) -> WeightedNode | None:
        """A MatMul, with the Add of a constant vector behind it as its bias."""
        if weight.ndim != 2:
            return None
        user = self._only_user(node.output[0])
        if user is None or user.op_type != "Add":
            return WeightedNode(node, weight, None)
        if self._is_masking(user):
            return WeightedNode(node, weight, None)
        constants = [value for name in user.input if (value := self._constant(name)) is not None]
        if len(constants) != 1 or constants[0].size != weight.shape[1] or constants[0].shape[-1] != weight.shape[1]:
            return WeightedNode(node, weight, None)
        if constants[0].ndim > max(len(self._types[node.output[0]].shape.dim), 1):
            return WeightedNode(node, weight, None)
        return WeightedNode(node, weight, constants[0].reshape(-1), user)

    def _is_addition(self, node: onnx.NodeProto) -> bool:
        """Whether it is an addition to quantise: not of an attention mask, whose scale leaves nothing of the rest."""
        if node.name in self._within or not _STEPWISE.isdisjoint(origins_of(node).values()):
            return False  # the state of a cell loses too much if each step rounds it to eight bits
        operands = [*map(str, node.input)]
        added = node.op_type in _ADDITIONS and len(operands) > 1 and self._activations(operands)
        return added and not self._is_for_softmax(str(node.output[0]))

    def _is_gate(self, node: onnx.NodeProto) -> bool:
        """Whether it is a product of an image or a line and one factor for each of its channels."""
        if node.op_type != "Mul" or not self._activations([*map(str, node.input)]):
            return False
        shapes = [[int(size.dim_value) for size in self._types[name].shape.dim] for name in node.input]
        image, gate = sorted(shapes, key=math.prod, reverse=True)
        return len(image) in _PLACES and gate == [*image[:2], *[1] * (len(image) - 2)] != image

    def _is_product(self, node: onnx.NodeProto) -> bool:
        """Whether it is a product of two activations that are matrices, or stacks of them."""
        if self._float_products or node.op_type != "MatMul" or not self._activations([*map(str, node.input)]):
            return False
        return all(len(self._types[str(name)].shape.dim) >= _MATRIX for name in node.input)

    def _is_for_softmax(self, tensor: str) -> bool:
        """Whether a softmax is all that comes of a tensor, behind movement, masks and factors."""
        users = self._users.get(tensor, [])
        return bool(users) and all(id(user) in self._softmax for user in users)

    def _is_masking(self, node: onnx.NodeProto) -> bool:
        """Whether an addition is of a constant that masks what a softmax reads."""
        if not self._is_for_softmax(str(node.output[0])):
            return False
        constants = [array_of(self._constants[name]) for name in node.input if name in self._constants]
        return any(not (np.abs(value) < _MASKED).all() for value in constants)

    def _average(self, node: onnx.NodeProto) -> Average | None:
        """A pooling or mean of an image or a line, all of whose results average as many elements."""
        shape = self._types[node.input[0]].shape.dim if node.input[0] in self._types else ()
        if len(shape) not in _PLACES or self._types[node.input[0]].elem_type != onnx.TensorProto.FLOAT:
            return None
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        plane = [int(size.dim_value) for size in shape[2:]]
        if node.op_type == "AveragePool":
            counted = not any(attributes.get("pads", ())) or attributes.get("count_include_pad")
            if not counted or attributes.get("ceil_mode") or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
                return None
            plane = attributes["kernel_shape"]
        elif node.op_type == "ReduceMean":
            axes = self._constant(node.input[1]) if len(node.input) > 1 else attributes.get("axes")
            if axes is None or sorted(int(axis) % len(shape) for axis in axes) != list(range(2, len(shape))):
                return None
        elif node.op_type != "GlobalAveragePool":
            return None
        return Average(str(node.input[0]), self._end(node), math.prod(plane))

    def _end(self, node: onnx.NodeProto) -> str:
        """The tensor to requantise to: behind the relu and clip that follow ``node`` alone."""
        output = str(node.output[0])
        passed = []
        while output not in self._ends:
            user = self._only_user(output)
            passed.append(output)
            if user is None or not self._is_clip(user):
                self._ends[output] = output
                break
            output = str(user.output[0])
        end = self._ends[output]
        self._ends.update(dict.fromkeys(passed, end))
        return end

    def _is_clip(self, node: onnx.NodeProto) -> bool:
        if node.op_type == "Clip":
            return all(not name or name in self._constants for name in node.input[1:])
        return bool(node.op_type == "Relu")

    def _only_user(self, tensor: str) -> onnx.NodeProto | None:
        if self._uses[tensor] != 1 or tensor in self._outputs:
            return None
        return self._users[tensor][0]

    def _constant(self, name: str) -> Array | None:
        tensor = self._constants.get(name)
        if tensor is None:
            return None
        value = array_of(tensor)
        if not all_finite(value):
            raise InvalidModel(f"the constant {name!r} has values that are not finite", field=f"initializer:{name}")
        return value
