"""Host steps: the runs of ``main`` that no accelerator takes, each as a Relax function of its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, relax
from tvm_ffi import structural_map

from accel.errors import CompileError
from accel.host.relax_operators import host_graph
from accel.lowering.ir.function_attributes import LAUNCHES, load_launches, region_of


@dataclass
class HostRun:
    """Bindings that run together on the host."""

    bindings: list[relax.VarBinding] = field(default_factory=list)


@dataclass(frozen=True)
class LaunchRun:
    """One call of a region."""

    var: relax.Var
    call: ir.Call


def split_main(
    module: ir.IRModule, apart: Callable[[ir.IRModule, Any], bool] | None = None
) -> list[HostRun | LaunchRun]:
    """``main`` as an ordered list of host runs and launches, or whatever calls stand ``apart``.

    A host binding joins the run that defines its latest operand, so tuples and shapes stay inside one run. What no
    launch has a part in runs first; all else waits until a launch reads some of it, as an output does to the end, so
    that it stands between as few launches as possible.
    """
    main, stands_apart = module["main"], apart or is_launch
    first = HostRun()
    runs: list[HostRun | LaunchRun] = [first]
    defined: dict[relax.Var, int] = dict.fromkeys(main.params, 0)
    for block in main.body.blocks:
        for binding in block.bindings:
            if stands_apart(module, binding.value):
                runs.append(LaunchRun(binding.var, binding.value))
                defined[binding.var] = len(runs) - 1
                continue
            latest = max((defined[var] for var in free_vars(binding.value)), default=0)
            if isinstance(runs[latest], HostRun):
                target = latest
            elif isinstance(runs[-1], HostRun):
                target = len(runs) - 1
            else:
                target = len(runs)
                runs.append(HostRun())
            run = runs[target]
            assert isinstance(run, HostRun)
            run.bindings.append(binding)
            defined[binding.var] = target
    return [*([first] if first.bindings else []), *_as_late_as_read(runs[1:])]


def _as_late_as_read(runs: Iterable[HostRun | LaunchRun]) -> Iterator[HostRun | LaunchRun]:
    """Yields the runs with host runs put together right before the first launch that reads any of them."""
    waiting = HostRun()
    for run in runs:
        if isinstance(run, HostRun):
            waiting.bindings += run.bindings
            continue
        if not {binding.var for binding in waiting.bindings}.isdisjoint(free_vars(run.call)):
            yield waiting
            waiting = HostRun()
        yield run
    if waiting.bindings:
        yield waiting


def layers_of(module: ir.IRModule) -> dict[str, list[str]]:
    """The layers that each region runs, by the region's name: names of launches, none where there is no ``main``."""
    if "main" not in {str(variable.name_hint) for variable in module.functions}:
        return {}
    infos, found = load_launches(str(module["main"].attrs[LAUNCHES])), dict[str, list[str]]()
    for run in split_main(module):
        if isinstance(run, LaunchRun):
            found.setdefault(str(run.call.args[0].name_hint), []).append(infos[str(run.var.name)].name)
    return found


def is_launch(module: ir.IRModule, value: Any) -> bool:
    """Whether the value is a call_tir of a region."""
    if not isinstance(value, ir.Call) or getattr(value.op, "name", "") != "relax.call_tir":
        return False
    return region_of(module[value.args[0]]) is not None


def free_vars(value: Any) -> list[relax.Var]:
    """Variables of the Relax graph that a value reads; those of a shape that depends on data are none."""
    found = relax.analysis.free_vars(value)
    return [var for var in found if isinstance(var, relax.Var) and not isinstance(var.ty, ir.PrimType)]


def host_module(module: ir.IRModule, run: HostRun, outputs: list[relax.Var]) -> tuple[ir.IRModule, list[relax.Var]]:
    """The run as a module of its own (``accel/host/relax_operators.py``), and the variables it takes.

    Composites that the host runs are put in place of their calls.

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
    names = {var: relax.Var(str(var.name), var.ty) for var in inputs}
    parameters = list(names.values())
    bindings = _renamed(module, run.bindings, names)
    return host_graph(parameters, bindings, [names[var] for var in outputs]), inputs


def _renamed(
    module: ir.IRModule, bindings: Sequence[relax.Binding], names: dict[relax.Var, Any]
) -> list[relax.VarBinding]:
    """The bindings with their variables by ``names``, which grows; another name for a value needs no binding."""
    result: list[relax.VarBinding] = []
    for binding in bindings:
        value = structural_map(binding.value, (relax.Var, lambda var: names.get(var, var)))
        if isinstance(value, ir.Call) and isinstance(value.op, ir.GlobalVar):
            called = module[value.op]
            inner = dict(zip(called.params, value.args, strict=True))
            for block in called.body.blocks:
                result += _renamed(module, block.bindings, inner)
            names[binding.var] = inner[called.body.body]
        elif isinstance(value, relax.Var):
            names[binding.var] = value
        else:
            names[binding.var] = relax.DataflowVar(str(binding.var.name), binding.var.ty)
            result.append(relax.VarBinding(names[binding.var], value))
    return result


def needed_bindings(bindings: Sequence[relax.VarBinding], outputs: Iterable[relax.Var]) -> list[relax.VarBinding]:
    """The bindings that ``outputs`` come from; names given to a result are not."""
    wanted, kept = set(outputs), []
    for binding in reversed(bindings):
        if binding.var in wanted:
            wanted.update(free_vars(binding.value))
            kept.append(binding)
    return kept[::-1]


_PARTS = "parts"


def make_parts(parts: Sequence[relax.Var], ty: relax.TensorType) -> ir.Call:
    """Returns the tensor that ``parts`` make up: results of launches in one place, of which each wrote some."""
    return relax.op.call_pure_packed(_PARTS, *parts, ty_args=ty)


def read_parts(value: Any) -> list[relax.Var] | None:
    """Returns what :func:`make_parts` was given; None for any other value."""
    if not isinstance(value, ir.Call) or getattr(value.op, "name", "") != "relax.call_pure_packed":
        return None
    function = value.args[0]
    named = isinstance(function, relax.ExternFunc) and str(function.global_symbol) == _PARTS
    return list(value.args[1:]) if named else None


def wholes(module: ir.IRModule) -> dict[relax.Var, relax.Var]:
    """Returns the tensor that each part of one belongs to."""
    found: dict[relax.Var, relax.Var] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            found |= dict.fromkeys(read_parts(binding.value) or [], binding.var)
    return found


def rebound(main: relax.Function, bindings: Sequence[relax.VarBinding], attrs: Mapping[str, Any]) -> relax.Function:
    """Returns ``main`` with other bindings, from which it returns the same, and with these attributes."""
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], main.body.body)
    return relax.Function(main.params, body, main.ret_ty, is_pure=True).with_attrs(dict(attrs))


def main_results(main: relax.Function) -> list[relax.Expr]:
    """What ``main`` returns: variables, or constants."""
    bound = {binding.var: binding.value for block in main.body.blocks for binding in block.bindings}

    def resolve(value: relax.Expr) -> relax.Expr:
        while isinstance(bound.get(value), relax.Var | relax.Tuple):
            value = bound[value]
        return value

    result = resolve(main.body.body)
    return [resolve(field) for field in result.fields] if isinstance(result, relax.Tuple) else [result]
