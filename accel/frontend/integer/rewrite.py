"""A dataflow block being rewritten: composites take the place of runs of bindings, the rest is kept."""

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.ir import IRModule

from accel.frontend.folding.affine import OPERATORS
from accel.frontend.importing.importer import Node, identifier
from accel.frontend.integer.dataflow import Dataflow

_PLUMBING = ("QuantizeLinear", "DequantizeLinear")


class Rewrite:
    """Collects the new bindings of ``main`` and the composites it calls.

    A variable that the rest of the graph uses keeps its identity, so nothing needs substituting.
    """

    def __init__(self, graph: Dataflow, origin: dict[str, Node]) -> None:
        self.graph = graph
        self.origin = dict(origin)
        self.replaced: set[str] = set()
        self.macs: dict[str, int] = {}
        self.causes: dict[str, str] = {}
        self._builder = relax.BlockBuilder()
        self._bindings: list[relax.Binding] = []
        self._kept: set[str] = set()
        self._names = {binding.var.name for binding in graph.bindings}

    def keep(self, binding: relax.Binding) -> None:
        """Leave ``binding`` as it is, or bind its value if that is a constant and still wanted at the end."""
        if isinstance(binding.value, relax.Var):  # another name for what one node, or none, has worked on
            self.origin.pop(binding.var.name, None)
            if binding.value.name in self.origin:
                self.origin[binding.var.name] = self.origin[binding.value.name]
        self._kept.add(binding.var.name)
        self._bindings.append(binding)

    def replace(self, members: Sequence[relax.Var]) -> None:
        """Drop the bindings of ``members``; the last of them must be bound anew."""
        self.replaced.update(var.name for var in members)

    def bind(self, var: relax.Var, value: relax.Expr, cause: str = "") -> None:
        """Bind ``var``, which the rest of the graph uses, to ``value``; ``cause`` is that of the host's having it."""
        if cause:
            self.causes[var.name] = cause
        if _is_view(value):
            self.origin.pop(var.name, None)
        self._bindings.append(relax.VarBinding(var, self._builder.normalize(value)))

    def emit(self, value: relax.Expr, like: relax.Var, suffix: str, cause: str = "") -> relax.Var:
        """Bind ``value`` to a new variable, named after ``like`` and of the same node, unless it is but a new shape.

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

    def composite(self, function: relax.Function, node: Node, macs: int = 0) -> tvm.ir.GlobalVar:
        """Add a composite function, named after its operation and ``node``."""
        name = self._unique(f"{function.attrs['op']}_{identifier(node.name)}")
        if macs and node.op not in OPERATORS:  # a batch norm as a layer of its own has none
            self.macs[name] = macs
        return self._builder.add_func(function, name)

    def nodes(self, variables: Sequence[relax.Var]) -> list[str]:
        """The names of the nodes that ``variables`` came from, without the quantize and dequantize nodes."""
        found = [self.origin[var.name] for var in variables if var.name in self.origin]
        return list(dict.fromkeys(name for node in found if node.op not in _PLUMBING for name in node.covers))

    def module(self, original: IRModule) -> IRModule:
        """The module: ``main`` of the new bindings, the composites, and the functions that ``original`` had."""
        main = original["main"]
        block = relax.DataflowBlock(self._wanted(main.body.body))
        body = self._builder.normalize(relax.SeqExpr([block], main.body.body))
        module = self._builder.get()
        for variable, function in original.functions.items():
            if variable.name_hint != "main":
                module[variable] = function
        module["main"] = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
        return module

    def _wanted(self, result: relax.Expr) -> list[relax.Binding]:
        """The bindings that ``result`` depends on; the float form of weights that are integers now is not computed."""
        wanted = {var.name for var in relax.analysis.free_vars(result)}
        found: list[relax.Binding] = []
        for binding in reversed(self._bindings):
            name = binding.var.name
            if name not in wanted:
                continue
            value = self.graph.constant(binding.value) if name in self._kept else None
            if value is not None:
                found.append(relax.VarBinding(binding.var, relax.const(value, str(value.dtype))))
                continue
            wanted.update(var.name for var in relax.analysis.free_vars(binding.value))
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
