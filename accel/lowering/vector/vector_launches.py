"""Launches of vector programs in ``main``, in place of the operators that they compute."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import ir, relax

from accel.accelerator.contraction import Contraction
from accel.accelerator.tables import BYTE_VALUES
from accel.frontend.integer_recovery.composite_functions import is_table
from accel.frontend.integer_recovery.recover_integers import HOST_NODES
from accel.lowering.analysis.arithmetic import operations_of
from accel.lowering.analysis.composite import is_composite_call
from accel.lowering.ir.function_attributes import (
    ATTENTION,
    HOST_REASON,
    LAUNCHES,
    REGION,
    VECTOR_REASONS,
    AttentionChoice,
    LaunchInfo,
    VectorValues,
    dump_choices,
    dump_launches,
    dump_region,
)
from accel.lowering.ir.host_runs import rebound
from accel.lowering.kinds.registry import launch_kind
from accel.region.kinds import VectorRegion
from accel.region.vector_program import VectorProgram

VECTOR = "vector"
"""The operator of launches of vector programs, and how their functions are called."""


@dataclass(frozen=True)
class PlacedProgram:
    """A vector program in place of bindings of ``main``.

    Attributes:
        program: in its tiles.
        members: the bindings that it computes, in their order.
        given: the values that it reads, as its parameters are.
        outside: the variables that it leaves in DRAM.
        conditions: variables of bools that it has in its expressions, and nobody computes.
        macs: multiply-accumulates of its members.
    """

    program: VectorProgram
    members: Sequence[relax.VarBinding]
    given: Sequence[relax.Expr]
    outside: Sequence[relax.Var]
    conditions: Sequence[relax.Var]
    macs: int


def with_launches(
    module: ir.IRModule,
    contraction: Contraction,
    placed: Sequence[tuple[relax.VarBinding, PlacedProgram | None]],
    reasons: Mapping[str, str],
    choices: Sequence[AttentionChoice],
) -> ir.IRModule:
    """Returns a module in which each program is a call.

    Args:
        module: the integer graph, its composites marked.
        contraction: of the machine.
        placed: the bindings that stay, and each program once with one of its own, in their order.
        reasons: why variables of the graph are in no program.
        choices: how attention was placed.
    """
    return _Launches(module, contraction, reasons, choices).built(placed)


class _Launches:
    """A module that is built with launches; equal programs share a function."""

    def __init__(
        self,
        module: ir.IRModule,
        contraction: Contraction,
        reasons: Mapping[str, str],
        choices: Sequence[AttentionChoice],
    ) -> None:
        self._module, self._contraction, self._reasons, self._choices = module, contraction, reasons, choices
        attrs = module["main"].attrs
        self._nodes: dict[str, str] = json.loads(str(attrs[HOST_NODES])) if HOST_NODES in attrs else {}
        self._builder = relax.BlockBuilder(module)
        self._functions: dict[str, ir.GlobalVar] = {}

    def built(self, placed: Sequence[tuple[relax.VarBinding, PlacedProgram | None]]) -> ir.IRModule:
        """Returns the module."""
        bindings: list[relax.VarBinding] = []
        launches: dict[str, LaunchInfo] = {}
        for binding, program in placed:
            if program is None:
                bindings.append(binding)
                continue
            made = self._call(self._function(VectorRegion(program.program)), program.given, program.outside)
            launches[str(made[0].var.name)] = self._info(program, len(launches))
            bindings += made
        return self._with_main(self._builder.get(), bindings, launches)

    def _with_main(
        self, module: ir.IRModule, bindings: list[relax.VarBinding], launches: dict[str, LaunchInfo]
    ) -> ir.IRModule:
        """The module with these bindings, without the composites that vector programs took in."""
        main = self._module["main"]
        attrs = dict(main.attrs.items()) | {
            LAUNCHES: dump_launches(launches),
            VECTOR_REASONS: json.dumps(self._reasons),
        }
        if self._choices:
            attrs[ATTENTION] = dump_choices(self._choices)
        module.update_func(module.get_global_var("main"), rebound(main, bindings, attrs))
        called = {
            binding.value.op: str(binding.var.name)
            for binding in bindings
            if is_composite_call(self._module, binding.value)
        }
        kept = {
            variable: self._with_reason(function, called.get(variable, ""))
            for variable, function in module.functions.items()
            if not isinstance(function, relax.Function) or str(variable.name_hint) == "main" or variable in called
        }
        return ir.IRModule(kept, attrs=module.attrs)

    def _with_reason(self, function: ir.BaseFunc, called: str) -> ir.BaseFunc:
        """A table of the host with the reason why no program looks it up; anything else as it is."""
        if not isinstance(function, relax.Function) or not is_table(function) or called not in self._reasons:
            return function
        why = f"it is a table of {BYTE_VALUES} entries: {self._reasons[called]}; the host looks it up, in int8"
        return function.with_attr(HOST_REASON, why)

    def _function(self, region: VectorRegion) -> ir.GlobalVar:
        """The PrimFunc of a program; equal programs share one."""
        key = dump_region(region)
        if key not in self._functions:
            function = launch_kind(region).expression(region, self._contraction).with_attr(REGION, key)
            variable = self._builder.add_func(function, f"{VECTOR}_{len(self._functions)}")
            self._builder.update_func(variable, function.with_attr("global_symbol", str(variable.name_hint)))
            self._functions[key] = variable
        return self._functions[key]

    def _call(
        self, function: ir.GlobalVar, given: Sequence[relax.Expr], outside: Sequence[relax.Var]
    ) -> list[relax.VarBinding]:
        """The bindings of a launch: its call, and each of several results."""
        types = [var.ty for var in outside]
        call = relax.call_tir(function, relax.Tuple(given), types[0] if len(types) == 1 else types)
        call = self._builder.normalize(call)
        if len(outside) == 1:
            return [relax.VarBinding(outside[0], call)]
        whole = relax.DataflowVar(f"{outside[0].name}_{VECTOR}", relax.TupleType(types))
        fields = [
            relax.VarBinding(var, self._builder.normalize(relax.TupleGetItem(whole, place)))
            for place, var in enumerate(outside)
        ]
        return [relax.VarBinding(whole, call), *fields]

    def _nodes_of(self, binding: relax.VarBinding) -> list[str]:
        """The nodes of the model that a variable is computed for."""
        if is_composite_call(self._module, binding.value):
            return [str(node) for node in self._module[binding.value.op].attrs["nodes"]]
        name = str(binding.var.name)
        return [self._nodes[name]] if name in self._nodes else []

    def _info(self, placed: PlacedProgram, number: int) -> LaunchInfo:
        nodes = tuple(dict.fromkeys(node for member in placed.members for node in self._nodes_of(member)))
        computes = [*(member.var for member in placed.members), *placed.conditions]
        values = VectorValues(_names(computes), _names(placed.given), _names(placed.outside))
        done = operations_of(self._module, placed.members)
        name = nodes[0] if nodes else f"{VECTOR}_{number}"
        return LaunchInfo(name, VECTOR, nodes, placed.macs, values=values, operations=done)


def _names(values: Sequence[relax.Expr]) -> tuple[str, ...]:
    """The names of variables; a constant has none."""
    return tuple(str(value.name) if isinstance(value, relax.Var) else "" for value in values)
