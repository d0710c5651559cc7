"""Host steps: the runs of ``main`` that no accelerator takes, each as a Relax function of its own."""

from dataclasses import dataclass, field
from typing import Any

from tvm import ir, relax
from tvm_ffi import structural_map

from accel.errors import CompileError
from accel.lowering.attributes import region_of
from accel.lowering.walk import collect


@dataclass
class HostRun:
    """Bindings that run together on the host."""

    bindings: list[relax.VarBinding] = field(default_factory=list)


@dataclass(frozen=True)
class LaunchRun:
    """One call of a region."""

    var: relax.Var
    call: ir.Call


def split_main(module: ir.IRModule) -> list[HostRun | LaunchRun]:
    """``main`` as an ordered list of host runs and launches.

    A host binding joins the run that defines its latest operand, so tuples and shapes stay inside one run.
    """
    main = module["main"]
    runs: list[HostRun | LaunchRun] = []
    defined: dict[relax.Var, int] = dict.fromkeys(main.params, -1)
    for block in main.body.blocks:
        for binding in block.bindings:
            if is_launch(module, binding.value):
                runs.append(LaunchRun(binding.var, binding.value))
                defined[binding.var] = len(runs) - 1
                continue
            latest = max((defined[var] for var in free_vars(binding.value)), default=-1)
            if latest >= 0 and isinstance(runs[latest], HostRun):
                target = latest
            elif runs and isinstance(runs[-1], HostRun):
                target = len(runs) - 1
            else:
                target = len(runs)
                runs.append(HostRun())
            run = runs[target]
            assert isinstance(run, HostRun)
            run.bindings.append(binding)
            defined[binding.var] = target
    return runs


def is_launch(module: ir.IRModule, value: Any) -> bool:
    """Whether the value is a call_tir of a region."""
    if not isinstance(value, ir.Call) or getattr(value.op, "name", "") != "relax.call_tir":
        return False
    return region_of(module[value.args[0]]) is not None


def free_vars(value: Any) -> list[relax.Var]:
    """Variables of the Relax graph that a value reads."""
    return [var for var in relax.analysis.free_vars(value) if isinstance(var, relax.Var)]


def host_module(module: ir.IRModule, run: HostRun, outputs: list[relax.Var]) -> tuple[str, list[relax.Var]]:
    """The run as TVM's JSON of a module with one function ``main``, and the variables it takes.

    Raises:
        CompileError: something other than tensors crosses the run's border.
    """
    inner = {binding.var for binding in run.bindings}
    reads = [var for binding in run.bindings for var in free_vars(binding.value) if var not in inner]
    inputs = list(dict.fromkeys(reads))
    for var in (*inputs, *outputs):
        if not isinstance(var.ty, relax.TensorType):
            raise CompileError(
                f"{var.name} is no tensor, and cannot pass between host and accelerator", field=str(var.name)
            )
    parameters = {var: relax.Var(str(var.name), var.ty) for var in inputs}
    rename = (relax.Var, lambda var: parameters.get(var, var))
    bindings = [relax.VarBinding(b.var, structural_map(b.value, rename)) for b in run.bindings]
    results = [relax.Var(f"{var.name}_result", var.ty) for var in outputs]
    leave = [relax.VarBinding(result, var) for result, var in zip(results, outputs, strict=True)]
    value: Any = results[0] if len(results) == 1 else relax.Tuple(results)
    body = relax.SeqExpr([relax.DataflowBlock([*bindings, *leave])], value)
    function = relax.Function(list(parameters.values()), body, value.ty).with_attr("global_symbol", "main")
    step = ir.IRModule({"main": function, **_callees(module, run)})
    return str(ir.save_json(relax.transform.Normalize()(step))), inputs


def _callees(module: ir.IRModule, run: HostRun) -> dict[ir.GlobalVar, Any]:
    """The functions that the run calls, and those that they call."""
    found: dict[ir.GlobalVar, Any] = {}
    pending = [variable for binding in run.bindings for variable in collect(binding.value, ir.GlobalVar)]
    while pending:
        variable = pending.pop()
        if variable not in found:
            found[variable] = module[variable]
            pending += [callee for callee in collect(module[variable], ir.GlobalVar) if callee not in found]
    return found
