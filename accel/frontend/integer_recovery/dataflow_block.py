"""A dataflow block as a graph, and its rewriting: composites take the place of runs of bindings."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule

from accel.frontend.fold.affine_channels import OPERATORS
from accel.frontend.integer_recovery.rounding_bias import Rounded, RoundingSides
from accel.frontend.relax_import.relax_importer import ImportedCall, ImportedNode, identifier
from accel.host.host_graph import attribute_value
from accel.host.onnx_calls import OnnxCall, make_onnx_call
from accel.host.relax_rules import RULES
from accel.util.arrays import Array, Float64, Int64

MAX_POOLINGS = ("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d")
"""Maxima over windows of lines, images and volumes, which keep scales and zero points."""

_SMALL = 4096  # elements of the largest constant whose value is kept once it is computed


@dataclass(frozen=True)
class QuantisedTensor:
    """An integer tensor and what its elements stand for: ``(value - zero_point) * scale``.

    ``scale`` (float64) and ``zero_point`` (int64) are scalars, or vectors along ``axis``.
    """

    value: relax.Expr
    scale: Float64
    zero_point: Int64
    axis: int
    dtype: str

    @property
    def per_tensor(self) -> bool:
        """One scale and zero point for all elements."""
        return self.scale.ndim == 0 and self.zero_point.ndim == 0


class Dataflow:
    """The bindings of a function of one dataflow block, by the name of the variable."""

    def __init__(self, function: relax.Function) -> None:
        (block,) = function.body.blocks
        self.bindings: list[relax.Binding] = list(block.bindings)
        self._definitions: dict[str, relax.Expr] = {b.var.name: b.value for b in self.bindings}
        self._users: dict[str, list[relax.Binding]] = {}
        self._constant: set[str] = set()
        self._small: dict[str, Array] = {}
        for binding in self.bindings:
            if isinstance(binding.value, tvm.ir.Call) and self.is_constant(binding.value):
                self._constant.add(str(binding.var.name))
            for operand in _operands(binding.value):
                if isinstance(operand, relax.Var):
                    self._users.setdefault(operand.name, []).append(binding)

    def definition(self, name: str) -> relax.Expr:
        """Returns what the variable of that name is bound to, or a parameter itself."""
        return self._definitions[name]

    def call(self, expr: relax.Expr, op: str = "") -> tvm.ir.Call | None:
        """Returns the call that ``expr`` is or is bound to, if it is one of the Relax operator ``op``."""
        value = self._definitions.get(expr.name) if isinstance(expr, relax.Var) else expr
        if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op):
            return None
        return value if op in ("", value.op.name) else None

    def between(self, result: relax.Var, operands: Collection[str]) -> set[str]:
        """Returns the variables that are computed on the way from ``operands`` to ``result``, itself among them."""
        found: set[str] = set()
        pending = [str(result.name)]
        while pending:
            name = pending.pop()
            if name in found or name in operands:
                continue
            found.add(name)
            leaves = _operands(self._definitions[name]) if name in self._definitions else []
            pending += [str(leaf.name) for leaf in leaves if isinstance(leaf, relax.Var)]
        return found

    def only_user(self, var: relax.Var) -> relax.Binding | None:
        """Returns the binding that uses ``var``, if it is used exactly once."""
        users = self._users.get(var.name, [])
        return users[0] if len(users) == 1 else None

    def users(self, var: relax.Var) -> list[relax.Binding]:
        """Returns the bindings that use ``var``, each as often as it does."""
        return self._users.get(var.name, [])

    def dequantised(self, expr: relax.Expr) -> QuantisedTensor | None:
        """Returns ``expr`` as the quantised tensor it is dequantised from; transposed constants are followed."""
        transposition = self.call(expr, "relax.permute_dims")
        if transposition is not None:
            return self._transposed(transposition)
        call = self.call(expr, "relax.dequantize")
        return self.parameters(call, call.args[0]) if call is not None else None

    def parameters(self, call: tvm.ir.Call, value: relax.Expr) -> QuantisedTensor | None:
        """Returns the parameters of a quantize or dequantize ``call`` whose integers are ``value``.

        None if they are not constant, or if a scale is not a positive number, which only a malformed model has.
        """
        scale, zero_point = self.constant(call.args[1]), self.constant(call.args[2])
        if scale is None or zero_point is None:
            return None
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            return None
        scale, zero_point = (a.reshape(()) if a.size == 1 else a for a in (scale, zero_point))
        return QuantisedTensor(
            value, scale.astype(np.float64), zero_point.astype(np.int64), int(call.attrs.axis), str(zero_point.dtype)
        )

    def constant(self, expr: relax.Expr) -> Array | None:
        """Returns the value of ``expr`` if it is computed from constants alone, by operators that QDQ models use."""
        if not self.is_constant(expr):
            return None
        # what a constant is computed from may be a chain of any length, and recursion is not
        found: dict[str, Array] = {}
        pending = [expr]
        while pending:
            expr = pending[-1]
            missing = [x for x in self._tensors(expr) if isinstance(x, relax.Var) and self._value(x, found) is None]
            if missing:
                pending += missing
                continue
            value = self._folded(pending.pop(), found)
            if isinstance(expr, relax.Var):
                (self._small if value.size <= _SMALL else found)[str(expr.name)] = value
        return value

    def is_constant(self, expr: relax.Expr) -> bool:
        """Returns whether :meth:`constant` has a value for ``expr``, without computing it."""
        if isinstance(expr, tvm.ir.GenericConst):
            return True
        if isinstance(expr, relax.Var):
            return str(expr.name) in self._constant
        call = self.call(expr)
        return call is not None and call.op.name in _FOLDED and all(map(self.is_constant, self._tensors(call)))

    def _tensors(self, expr: relax.Expr) -> list[relax.Expr]:
        """The operands of what ``expr`` is or is bound to, without shapes."""
        call = self.call(expr)
        return [] if call is None else [x for x in call.args if not isinstance(x.ty, relax.ShapeType)]

    def _value(self, expr: relax.Expr, found: dict[str, Array]) -> Array | None:
        """The value of a constant whose operands' values are ``found``, if it is known already."""
        if isinstance(expr, tvm.ir.GenericConst):
            return np.asarray(expr.value.numpy())
        name = str(expr.name) if isinstance(expr, relax.Var) else ""
        return self._small.get(name, found.get(name))

    def _folded(self, expr: relax.Expr, found: dict[str, Array]) -> Array:
        known = self._value(expr, found)
        if known is not None:
            return known
        call = self.call(expr)
        assert call is not None
        with np.errstate(all="ignore"):  # infinities are values, as they would be at run time
            return np.asarray(_FOLDED[call.op.name](call, *(self._value(x, found) for x in self._tensors(call))))

    def _transposed(self, call: tvm.ir.Call) -> QuantisedTensor | None:
        inner = self.dequantised(call.args[0])
        value = self.constant(inner.value) if inner is not None else None
        if inner is None or value is None:
            return None
        axes = _axes(call, value.ndim)
        axis = axes.index(inner.axis % value.ndim) if not inner.per_tensor else inner.axis
        return QuantisedTensor(relax.const(value.transpose(axes)), inner.scale, inner.zero_point, axis, inner.dtype)


def _operands(expr: relax.Expr) -> list[relax.Expr]:
    """The direct operands, tuples opened."""
    if isinstance(expr, tvm.ir.Call):
        found = list(expr.args)
    elif isinstance(expr, relax.Tuple):
        found = list(expr.fields)
    elif isinstance(expr, relax.TupleGetItem):
        found = [expr.tuple_value]
    else:
        return [expr]
    return [
        leaf for operand in found for leaf in (_operands(operand) if isinstance(operand, relax.Tuple) else [operand])
    ]


def _axes(call: tvm.ir.Call, rank: int) -> list[int]:
    axes = call.attrs.axes
    return [int(axis) % rank for axis in axes] if axes is not None else list(reversed(range(rank)))


def _along(parameter: Array, call: tvm.ir.Call, rank: int) -> Array:
    """A scale or zero point, shaped to broadcast along the axis of a quantize or dequantize call."""
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * rank
    shape[int(call.attrs.axis)] = parameter.size
    return parameter.reshape(shape)


def _dequantize(call: tvm.ir.Call, value: Array, scale: Array, zero_point: Array) -> Array:
    centred = value.astype(np.int64) - _along(zero_point, call, value.ndim).astype(np.int64)
    return (centred * _along(scale, call, value.ndim).astype(np.float64)).astype(np.float32)


def _quantize(call: tvm.ir.Call, value: Array, scale: Array, zero_point: Array) -> Array:
    limits = np.iinfo(zero_point.dtype)
    steps = np.rint(value / _along(scale, call, value.ndim)) + _along(zero_point, call, value.ndim)
    return np.asarray(np.clip(steps, limits.min, limits.max).astype(zero_point.dtype))


_FOLDED: dict[str, Any] = {
    "relax.dequantize": _dequantize,
    "relax.quantize": _quantize,
    "relax.reshape": lambda call, value: value.reshape([int(size) for size in call.ty.shape.values]),
    "relax.permute_dims": lambda call, value: value.transpose(_axes(call, value.ndim)),
    "relax.multiply": lambda _call, a, b: a * b,
    # what makes an index that counts from the end one that counts from the start
    "relax.shape_to_tensor": lambda call: np.array([int(size) for size in call.args[0].ty.values], np.int64),
    "relax.take": lambda call, value, at: value.take(at, None if call.attrs.axis is None else int(call.attrs.axis)),
    "relax.less": lambda _call, a, b: np.less(a, b),
    "relax.add": lambda _call, a, b: a + b,
    "relax.where": lambda _call, condition, a, b: np.where(condition, a, b),
}


def shape_of(expr: relax.Expr) -> list[int]:
    """Returns the static shape of an expression, elements."""
    return [int(extent) for extent in expr.ty.shape.values]


ClipsApart = Callable[[relax.Function], bool]
"""Whether an accelerator clips the results of a composite better in a composite of their own."""

_PLUMBING = ("QuantizeLinear", "DequantizeLinear")


class DataflowRewrite:
    """Collects the new bindings of ``main`` and the composites it calls.

    A variable that the rest of the graph uses keeps its identity, so nothing needs substituting.

    Attributes:
        clips_apart: whether the accelerator clips the results of a composite better in one of their own.
    """

    def __init__(
        self,
        graph: Dataflow,
        origin: dict[str, ImportedNode],
        *,
        balances: Collection[Rounded] = (),
        clips_apart: ClipsApart | None = None,
    ) -> None:
        self.graph = graph
        self.clips_apart = clips_apart or (lambda _function: False)
        self.origin = dict(origin)
        self.rounding = RoundingSides(balances)
        self.replaced: set[str] = set()
        self.macs: dict[str, int] = {}
        self.causes: dict[str, str] = {}
        self.refusals: dict[str, str] = {}
        self._builder = relax.BlockBuilder()
        self._bindings: list[relax.Binding] = []
        self._kept: set[str] = set()
        self._bound: dict[str, relax.Expr] = {}
        self._names = {binding.var.name for binding in graph.bindings}

    def errors_of(self, tensor: QuantisedTensor) -> Float64 | None:
        """Returns how far each channel of ``tensor`` is off on average, as real numbers; None: that is not known."""
        value = tensor.value
        return self.rounding.errors.get(str(value.name)) if isinstance(value, relax.Var) else None

    def keep(self, binding: relax.Binding) -> None:
        """Keeps ``binding``, or binds its value if that is a constant that others still use at the end."""
        if isinstance(binding.value, relax.Var):  # another name for what one node, or none, has worked on
            self.origin.pop(binding.var.name, None)
            if binding.value.name in self.origin:
                self.origin[binding.var.name] = self.origin[binding.value.name]
        self._kept.add(binding.var.name)
        self._bindings.append(binding)

    def replace(self, members: Sequence[relax.Var]) -> None:
        """Drops the bindings of ``members``; the last of them must be bound anew."""
        self.replaced.update(var.name for var in members)

    def bind(self, var: relax.Var, value: relax.Expr, cause: str = "") -> None:
        """Binds ``var``, which the rest of the graph uses, to ``value``; ``cause`` says why it is on the host."""
        if cause:
            self.causes[var.name] = cause
        if _is_view(value):
            self.origin.pop(var.name, None)
        self._bound[str(var.name)] = self._builder.normalize(value)
        self._bindings.append(relax.VarBinding(var, self._bound[str(var.name)]))

    def bound(self, var: relax.Var) -> tvm.ir.Call | None:
        """Returns the call of a Relax operator that ``var`` was bound to anew; None of all else."""
        value = self._bound.get(str(var.name))
        return value if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op) else None

    def emit(self, value: relax.Expr, like: relax.Var, suffix: str, cause: str = "") -> relax.Var:
        """Binds ``value`` to a new variable named after ``like``, of the same node unless it only changes the shape.

        ``cause`` says why the host has this part of a node's work.
        """
        value = self._builder.normalize(value)
        name = self._unique(f"{like.name}_{suffix}")
        var = relax.DataflowVar(name, value.ty)
        if like.name in self.origin and not _is_view(value):
            self.origin[name] = self.origin[like.name]
        if cause:
            self.causes[name] = cause
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def composite(self, function: relax.Function, node: ImportedNode, macs: int = 0) -> tvm.ir.GlobalVar:
        """Adds a composite function, named after its operation and ``node``."""
        name = self._unique(f"{function.attrs['op']}_{identifier(node.name)}")
        if macs and node.op not in OPERATORS:  # a batch norm as a layer of its own has none
            self.macs[name] = macs if node.macs is None else node.macs
        return self._builder.add_func(function, name)

    def restore(self, calls: Sequence[ImportedCall], opset: int) -> None:
        """Replaces what TVM made of a node by the node itself, wherever none of that was recovered.

        What only moves elements, or works on integers, stays as Relax has it, which later stages look into.
        """
        nodes: dict[str, relax.Expr] = {}
        ahead: dict[str, relax.VarBinding] = {}
        for call in calls:
            given = {str(operand.name) for operand in call.operands if isinstance(operand, relax.Var)}
            results = [result for result in call.results if result is not None and str(result.name) not in given]
            made = set[str]().union(*(self.graph.between(result, given) for result in results))
            value = _onnx_call(call, opset) if made and made <= self._kept and not self._is_plain(made) else None
            if value is None:
                continue
            if len(results) == 1:
                nodes[str(results[0].name)] = value
                continue
            value = self._builder.normalize(value)
            whole = relax.DataflowVar(self._unique(f"{results[0].name}_all"), value.ty)
            names = {str(result.name) for result in results}
            first = next(str(binding.var.name) for binding in self._bindings if str(binding.var.name) in names)
            ahead[first] = relax.VarBinding(whole, value)
            if first in self.origin:
                self.origin[str(whole.name)] = self.origin[first]
            nodes |= {str(result.name): relax.TupleGetItem(whole, at) for at, result in enumerate(results)}
        bindings: list[relax.Binding] = []
        for binding in self._bindings:
            name = str(binding.var.name)
            bindings += [ahead[name]] if name in ahead else []
            changed = relax.VarBinding(binding.var, self._builder.normalize(nodes[name])) if name in nodes else binding
            bindings.append(changed)
        self._bindings = bindings
        self._kept -= nodes.keys()

    def _is_plain(self, names: Collection[str]) -> bool:
        """Whether what computes these variables is constant, or stays as Relax has it."""
        return all(self.graph.is_constant(value) or is_plain(value) for value in map(self.graph.definition, names))

    def nodes(self, variables: Sequence[relax.Var]) -> list[str]:
        """Returns the names of the nodes that ``variables`` came from, without the quantize and dequantize nodes."""
        found = [self.origin[var.name] for var in variables if var.name in self.origin]
        return list(dict.fromkeys(name for node in found if node.op not in _PLUMBING for name in node.covers))

    def module(self, original: IRModule) -> IRModule:
        """Returns the module: ``main`` of the new bindings, the composites, and the functions that ``original`` had."""
        main = original["main"]
        block = relax.DataflowBlock(self._used_bindings(main.body.body))
        body = self._builder.normalize(relax.SeqExpr([block], main.body.body))
        module = self._builder.get()
        for variable, function in original.functions.items():
            if variable.name_hint != "main":
                module[variable] = function
        module["main"] = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
        return module

    def _used_bindings(self, result: relax.Expr) -> list[relax.Binding]:
        """The bindings that ``result`` depends on; the float form of weights that are integers now is not computed."""
        used = {var.name for var in relax.analysis.free_vars(result)}
        found: list[relax.Binding] = []
        for binding in reversed(self._bindings):
            name = binding.var.name
            if name not in used:
                continue
            value = self.graph.constant(binding.value) if name in self._kept else None
            if value is not None:
                found.append(relax.VarBinding(binding.var, relax.const(value, str(value.dtype))))
                continue
            used.update(var.name for var in relax.analysis.free_vars(binding.value))
            found.append(binding)
        return found[::-1]

    def _unique(self, name: str) -> str:
        candidate, count = name, 0
        while candidate in self._names:
            count += 1
            candidate = f"{name}_{count}"
        self._names.add(candidate)
        return candidate


def _is_view(value: relax.Expr) -> bool:
    """A change of shape, which is no work."""
    return isinstance(value, tvm.ir.Call) and value.op == tvm.ir.Op.get("relax.reshape")


_MOVES = ("relax.concat", "relax.expand_dims", "relax.flatten", "relax.permute_dims", "relax.reshape", "relax.squeeze")
_INTEGER = (
    *MAX_POOLINGS, "relax.add", "relax.astype", "relax.maximum", "relax.minimum", "relax.multiply", "relax.nn.pad",
    "relax.strided_slice", "relax.subtract",
)  # fmt: skip


def is_plain(value: relax.Expr) -> bool:
    """Returns whether a value is movement, or simple work on integers, which are as exact in Relax as in ONNX."""
    if isinstance(value, relax.Var):
        return True
    if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op):
        return False
    name = str(value.op.name)
    tensors = [x.ty for x in (*value.args, value) if isinstance(x.ty, relax.TensorType)]
    integers = all(str(ty.dtype.dtype).startswith(("int", "uint")) for ty in tensors)
    return name in RULES and (name in _MOVES or (name in _INTEGER and integers))


def _onnx_call(call: ImportedCall, opset: int) -> relax.Expr | None:
    """The node as a call; None if Relax cannot hold it."""
    node = call.node
    try:
        attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    except ValueError:
        return None
    operands = tuple(None if operand is None or _is_empty(operand) else operand for operand in call.operands)
    there = tuple(result is not None for result in call.results)
    results = [result.ty for result in call.results if result is not None]
    return make_onnx_call(OnnxCall(opset, node.op_type, attributes, operands, there), results)


def _is_empty(operand: relax.Expr) -> bool:
    """A constant without elements, by which Resize says that an input is absent."""
    return isinstance(operand, tvm.ir.GenericConst) and 0 in operand.value.shape
