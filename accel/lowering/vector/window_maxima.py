"""Maxima over windows that no region takes, said otherwise: elementwise maxima of slices, which vector programs take.

Each element of a window is a slice of the whole tensor, a stride apart, which loads read where it lies. What windows
have outside of the tensor is the least number of its type, as padding: a border in DRAM. They are taken along one axis
after the other, rows first: that reads the fewest slices, and whole rows of them while most elements are left.
"""

import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import ir, relax

from accel.accelerator.target import Target
from accel.frontend.integer_recovery.composite_functions import composite_function
from accel.frontend.integer_recovery.dataflow_block import MAX_POOLINGS
from accel.frontend.integer_recovery.recover_integers import HOST_NODES, ImportedModel
from accel.frontend.relax_import.relax_importer import ImportedNode
from accel.lowering.analysis.composite import called_region, is_composite_call, read_composite, shape_of
from accel.lowering.analysis.float_units import home_memory, runs_programs
from accel.lowering.ir.function_attributes import HOST_REASON
from accel.lowering.ir.host_runs import rebound
from accel.lowering.vector.block_statements import UnsaidError
from accel.lowering.vector.covers.instruction_cover import UncoverableError
from accel.lowering.vector.covers.operator_covers import OperatorCovers
from accel.lowering.vector.program_groups import Group
from accel.lowering.vector.tiles.program_tiles import obstacle
from accel.region.composite_attributes import CompositeAttributes
from accel.region.epilogue import INT8, Steps
from accel.region.shapes import SlidingWindow, WindowAxis

_OPERATOR = "max_pool"
_OUTER = 2  # axes ahead of those that windows go along
_MOVES = {"relax.nn.pad": "Pad", "relax.permute_dims": "Transpose", "relax.strided_slice": "Slice"}
_NARROW, _WIDE = "int8", "int32"


@dataclass(frozen=True)
class WindowMaxima:
    """The maxima over windows of a graph as maxima of slices.

    Attributes:
        module: the integer graph, its composites marked, in which they are said so.
        imported: the model, whose graph has these slices too, beside the maxima over windows themselves.
    """

    module: ir.IRModule
    imported: ImportedModel


def say_window_maxima(
    imported: ImportedModel, marked: ir.IRModule, target: Target, left: Mapping[str, str]
) -> WindowMaxima:
    """Returns the graph with maxima of slices in place of maxima over windows that have no region.

    Those that no instruction takes stay as they are.

    Args:
        imported: the model.
        marked: its graph, with what becomes of each composite.
        target: what it is for.
        left: nodes of the model that the host shall run.
    """
    if not runs_programs(target):
        return WindowMaxima(marked, imported)
    return _Poolings(imported, marked, target, left).said()


@dataclass(frozen=True)
class _Pooling:
    """A maximum over windows in ``main``, with the ``nodes`` of the model that it computes.

    ``call`` is the operator, and ``steps`` clip what it makes; ``reason`` says why there is no region.
    """

    binding: relax.VarBinding
    call: ir.Call
    nodes: list[str]
    steps: Steps = ()
    reason: str = ""

    @property
    def axes(self) -> list[WindowAxis]:
        """How its windows go along each axis."""
        attributes = self.call.attrs
        given, made = (shape_of(each)[_OUTER:] for each in (self.call.args[0], self.binding.var))
        numbers = (attributes.pool_size, attributes.dilation, attributes.strides, attributes.padding[: len(given)])
        return [WindowAxis(*map(int, each)) for each in zip(*numbers, given, made, strict=True)]


class _Poolings:
    """The maxima over windows of ``main`` that have no region, and what is said in their place."""

    def __init__(self, imported: ImportedModel, marked: ir.IRModule, target: Target, left: Mapping[str, str]) -> None:
        self._imported, self._marked, self._target, self._left = imported, marked, target, left
        self._builder = relax.BlockBuilder(marked)
        self._images = {
            binding.var
            for block in marked["main"].body.blocks
            for binding in block.bindings
            if called_region(marked, binding.value) is not None
        }
        self._made: list[relax.VarBinding] = []
        self._functions: dict[ir.GlobalVar, relax.Function] = {}
        self._why: dict[ir.Op | ir.GlobalVar, str] = {}

    def said(self) -> WindowMaxima:
        """Returns the graph with maxima of slices in their place."""
        parts = dict[relax.Var, list[relax.VarBinding]]()
        nodes = dict[str, str]()
        for pooling in self._poolings():
            self._made = []
            last = self._maxima(pooling)
            if last is not None:
                made = [*self._made, relax.VarBinding(pooling.binding.var, last)]
                parts[pooling.binding.var] = made
                nodes |= dict.fromkeys((str(each.var.name) for each in made), pooling.nodes[0])
        return WindowMaxima(self._module(parts, nodes), self._with_slices(parts, nodes))

    def _poolings(self) -> Iterator[_Pooling]:
        for block in self._marked["main"].body.blocks:
            for binding in block.bindings:
                found = self._pooling(binding)
                if found is not None and found.nodes and self._left.keys().isdisjoint(found.nodes):
                    yield found

    def _pooling(self, binding: relax.VarBinding) -> _Pooling | None:
        """A maximum over windows that has no region; None of all else."""
        value = binding.value
        if is_composite_call(self._marked, value):
            composite = self._marked[value.op]
            if str(composite.attrs["op"]) != _OPERATOR or HOST_REASON not in composite.attrs:
                return None
            read, call = read_composite(composite), composite.body.blocks[0].bindings[0].value
            return _Pooling(binding, call, list(read.nodes), read.steps, str(composite.attrs[HOST_REASON]))
        if not isinstance(value, ir.Call) or not isinstance(value.op, ir.Op) or value.op.name not in MAX_POOLINGS:
            return None
        node = self._imported.host_nodes.get(str(binding.var.name))
        plain = str(value.ty.dtype) == _NARROW and not value.attrs.ceil_mode
        return _Pooling(binding, value, [node.name]) if plain and node is not None else None

    def _module(self, parts: Mapping[relax.Var, Sequence[relax.VarBinding]], nodes: Mapping[str, str]) -> ir.IRModule:
        """The marked graph with maxima of slices, and with what keeps others from being said so."""
        main, bindings = self._marked["main"], list[relax.VarBinding]()
        for block in main.body.blocks:
            for binding in block.bindings:
                bindings += parts.get(binding.var, [binding])
        known: dict[str, str] = json.loads(str(main.attrs[HOST_NODES]))
        module = _with_bindings(self._marked, bindings, self._functions)
        named = module["main"].with_attr(HOST_NODES, json.dumps({**known, **nodes}))
        module.update_func(module.get_global_var("main"), named)
        for variable, why in self._why.items():
            if not isinstance(variable, ir.GlobalVar):  # its operator is no composite, and placement says why
                continue
            function = module[variable]
            reason = f"{function.attrs[HOST_REASON]}; as maxima of slices, in a vector program: {why}"
            module.update_func(variable, function.with_attr(HOST_REASON, reason))
        return module

    def _with_slices(
        self, parts: Mapping[relax.Var, Sequence[relax.VarBinding]], nodes: Mapping[str, str]
    ) -> ImportedModel:
        """The model, in whose graph is what the maxima are of: what programs compute is held against the maxima."""
        bindings = list[relax.VarBinding]()
        for block in self._imported.module["main"].body.blocks:
            for binding in block.bindings:
                bindings += [*parts.get(binding.var, [])[:-1], binding]
        moves = {str(each.var.name): _moving(each.value) for made in parts.values() for each in made[:-1]}
        hosted = {name: ImportedNode(nodes[name], op, (nodes[name],)) for name, op in moves.items()}
        return replace(
            self._imported,
            module=_with_bindings(self._imported.module, bindings, self._functions),
            host_nodes=self._imported.host_nodes | hosted,
        )

    def _maxima(self, pooling: _Pooling) -> relax.Expr | None:
        """What a maximum over windows is, of bindings that are made; None if no program does it."""
        axes, value = pooling.axes, self._channels_last(pooling)
        walked = [at for at, axis in enumerate(axes) if axis.moves] or [0]
        for at in walked:
            slices = [self._emit(pooling, _tap(value, axes[at], 1 + at, tap)) for tap in range(axes[at].taps)]
            found = self._maximum(pooling, slices, pooling.steps if at == walked[-1] else ())
            if found is None:
                return None
            value = found if isinstance(found, relax.Var) else self._emit(pooling, found)
        rank = len(axes) + _OUTER
        return self._builder.normalize(relax.op.permute_dims(value, [0, rank - 1, *range(1, rank - 1)]))

    def _channels_last(self, pooling: _Pooling) -> relax.Expr:
        """The data with channels last, in rows of which stores and loads move them, and with what is around them.

        An image of a region is padded as it is, which packing does.
        """
        value = pooling.binding.value.args[0]
        around = list(itertools.chain(*((axis.before, axis.after) for axis in pooling.axes)))
        image = value in self._images
        if image and any(around):
            value = self._emit(pooling, relax.op.nn.pad(value, [0] * 2 * _OUTER + around, "constant", INT8[0]))
        value = self._emit(pooling, relax.op.permute_dims(value, [0, *range(_OUTER, len(pooling.axes) + _OUTER), 1]))
        if any(around) and not image:
            value = self._emit(pooling, relax.op.nn.pad(value, [0, 0, *around, 0, 0], "constant", INT8[0]))
        return value

    def _emit(self, pooling: _Pooling, value: relax.Expr) -> relax.Var:
        value = self._builder.normalize(value)
        var = relax.DataflowVar(f"{pooling.binding.var.name}_part{len(self._made)}", value.ty)
        self._made.append(relax.VarBinding(var, value))
        return var

    def _maximum(self, pooling: _Pooling, slices: Sequence[relax.Var], steps: Steps) -> relax.Expr | None:
        """The maximum of slices, clipped by ``steps``, as a call of a composite; None if no vector program is it."""
        parameters = [relax.Var(f"x{number}", each.ty) for number, each in enumerate(slices)]

        def compute(builder: relax.BlockBuilder) -> relax.Expr:
            wide = [builder.emit(relax.op.astype(each, _WIDE)) for each in parameters]
            value = functools.reduce(lambda a, b: builder.emit(relax.op.maximum(a, b)), wide)
            for name, bound in steps:
                clip = relax.op.maximum if name == "max" else relax.op.minimum
                value = builder.emit(clip(value, relax.const(bound, _WIDE)))
            return relax.op.astype(value, _NARROW)

        if len(slices) == 1 and not steps:
            return slices[0]
        window = SlidingWindow((len(slices), 1), (1, 1), (1, 1), (0, 0, 0, 0))
        attributes = CompositeAttributes(window=window, steps=steps, narrow=bool(steps))
        function = composite_function(_OPERATOR, pooling.nodes, parameters, compute, attributes)
        function = function.with_attr(HOST_REASON, pooling.reason)
        why = self._obstacle(function, slices)
        if why:
            self._why[pooling.binding.value.op] = why
            return None
        variable = self._builder.add_func(function, _OPERATOR)
        self._functions[variable] = self._builder.get()[variable]
        return self._builder.normalize(ir.Call(variable, slices))

    def _obstacle(self, function: relax.Function, slices: Sequence[relax.Var]) -> str:
        """Why no vector program is what a function computes; empty if one is."""
        operators, call = self._target.derived(OperatorCovers), ir.Call(ir.GlobalVar("maxima"), slices)
        try:
            covered, given, _ = operators.covered(*operators.legalizer.read(call, slices[0].ty, function, {}))
        except (UnsaidError, UncoverableError) as error:
            return str(error)
        group = Group(home_memory(self._target.accelerator) or "")
        result = relax.DataflowVar("largest", slices[0].ty)
        group.join(result, covered, given)
        return obstacle(group.uncut([result]), self._target.accelerator)


def _moving(value: ir.Call) -> str:
    """The operator of ONNX that a value is, as a reader knows it, if the host has to do it."""
    return _MOVES.get(value.op.name, "MaxPool") if isinstance(value.op, ir.Op) else "MaxPool"


def _with_bindings(
    module: ir.IRModule, bindings: Sequence[relax.VarBinding], functions: Mapping[ir.GlobalVar, relax.Function]
) -> ir.IRModule:
    """The module with other bindings of ``main``, and more functions."""
    main = module["main"]
    result = ir.IRModule(dict(module.functions.items()) | dict(functions), attrs=module.attrs)
    result.update_func(result.get_global_var("main"), rebound(main, bindings, dict(main.attrs.items())))
    return result


def _tap(value: relax.Expr, axis: WindowAxis, at: int, tap: int) -> relax.Expr:
    """One element of each window along an axis, as a slice; ``at``: the dimension that is it."""
    first, last = axis.slice_of(tap)
    return relax.op.strided_slice(value, [at], [first], [last], [axis.stride])
