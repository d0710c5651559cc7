"""The integer graph piece by piece: integers and movement in numpy, the model's other operators by onnxruntime.

Nothing here goes through what the compiler makes of an operator: composites have rules of their own in numpy, and
float operators are run as nodes of the QDQ model, in place of which the graph has them.

Floats that an accelerator computed need not be equal to these: they must lie within their rounding bounds, as must what
ONNX's evaluator has in double precision. What follows is computed of the accelerator's.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from tvm import ir, relax

from accel.errors import CompileError
from accel.frontend.integer_recovery.recover_integers import ImportedModel, is_of_model
from accel.host.host_executor import WORK_PER_SECOND
from accel.host.host_graph import HostNode
from accel.host.host_operators import work_of
from accel.host.json_fields import Tensor
from accel.host.onnx_calls import OnnxCall, read_onnx_call
from accel.lowering.ir.host_runs import HostRun, LaunchRun, free_vars, main_results, split_main
from accel.report.documents.report_documents import FloatResult
from accel.util.arrays import Array
from accel.util.deadline import Deadline, OutOfTimeError
from accel.verify.onnx_reference import ModelNodes
from accel.verify.reference_operators import is_known, is_known_call, moved, run, run_call, source_of
from accel.verify.vector_results import VectorResult

Values = dict[relax.Expr, Array]


@dataclass(frozen=True)
class ReferenceRun:
    """The outputs, and ``tensors``, those of the model in QDQ form that were computed, by name.

    ``floats`` says how results of vector programs lie within their bounds.
    """

    outputs: list[Array]
    tensors: dict[str, Array]
    floats: list[FloatResult]


def run_reference(
    imported: ImportedModel,
    inputs: Sequence[Array],
    deadline: Deadline,
    measured: Mapping[str, VectorResult] = MappingProxyType({}),
) -> ReferenceRun:
    """Returns what ``main`` of an integer graph computes.

    Args:
        imported: the graph, and the model that it is of.
        inputs: in its order.
        deadline: when to give up.
        measured: results of vector programs, by variable.

    Raises:
        VerificationError: a result of a vector program is out of its bounds.
        OutOfTimeError: the deadline has passed, or would pass during the next operator.
        CompileError: an operator has neither a rule nor a node of the model; none that the importer makes is such.
    """
    module = imported.module
    runs = _cut(split_main(module, lambda module, value: not is_of_model(module, value)), measured)
    results = main_results(module["main"])
    operands = {name for each in measured.values() for name in each.operands if isinstance(name, str)}
    read = [_read(step) for step in runs]
    bound = {step.var: step.call for step in runs if isinstance(step, LaunchRun)}
    nodes = ModelNodes(imported.model)
    values: Values = dict(zip(module["main"].params, inputs, strict=True))
    rounded, between = set[relax.Expr](), set[str]()

    def other_way(var: relax.Var, result: VectorResult) -> Callable[[], Array | None]:
        """A tensor without what the accelerator made of it: as the graph has it, or, of what is rounded, wide."""
        if var in values and var not in rounded:
            return partial(np.asarray, values[var])
        exact = {each: array for each, array in values.items() if each not in rounded or _is_operand(each, result)}
        return partial(_wide, imported, nodes, var, bound, exact, frozenset(between))

    with _Checks() as checks:
        for index, step in enumerate(runs):
            if isinstance(step, LaunchRun):
                _evaluate(module, step, values, deadline)
                made = values.get(step.var)
                result = measured.get(str(step.var.name))
                if made is not None and np.issubdtype(made.dtype, np.floating) and not rounded.isdisjoint(read[index]):
                    between |= {*imported.tensors.get(str(step.var.name), ())}
                    rounded.add(step.var)
                if result is not None:
                    checks.begin(result, step.var, values, other_way(step.var, result))
                    rounded.discard(step.var)
                continue
            elsewhere = {var for other, names in enumerate(read) if other != index for var in names} | {*results}
            outputs = [
                binding.var
                for binding in step.bindings
                if (binding.var in elsewhere or str(binding.var.name) in operands)
                and isinstance(binding.var.ty, relax.TensorType)
                and str(binding.var.name) not in measured
            ]
            if outputs:
                _run_nodes(imported, nodes, step, outputs, values, deadline)
                rounded.update(var for var in outputs if np.issubdtype(values[var].dtype, np.floating))
            between |= _made(imported, step)
            last = step.bindings[-1].var
            if str(last.name) in measured:
                result = measured[str(last.name)]
                checks.begin(result, last, values, other_way(last, result))
        floats = checks.found()
    tensors = {name: array for var, array in values.items() for name in imported.tensors.get(str(var.name), ())}
    return ReferenceRun([_value(result, values) for result in results], tensors, floats)


class _Checks:
    """The checks of results of vector programs, in a thread beside the graph, which goes on with these results.

    Used as a context manager it ends with the block; where that fails, a check that has failed is why.
    """

    def __init__(self) -> None:
        self._begun: list[Future[FloatResult]] = []

    def __enter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "checks")
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._thread.shutdown(cancel_futures=True)
        for check in self._begun if error is not None else ():
            if not check.cancelled():
                check.result()

    def begin(
        self, result: VectorResult, var: relax.Var, values: Values, independent: Callable[[], Array | None]
    ) -> None:
        """Check a result, beside another way to it, from the ``values`` of now; it stands for ``var`` from here on."""
        known = {str(name.name): array for name, array in values.items() if isinstance(name, relax.Var)}
        self._begun.append(self._thread.submit(_checked, result, known, independent))
        values[var] = result.found.reshape([int(extent) for extent in var.ty.shape.values])

    def found(self) -> list[FloatResult]:
        """Returns what the checks have found, once all have ended.

        Raises:
            VerificationError: a result is out of its bounds.
        """
        return [check.result() for check in self._begun]


def _checked(result: VectorResult, known: Mapping[str, Array], independent: Callable[[], Array | None]) -> FloatResult:
    return result.check(result.interval(known.__getitem__), independent())


def _cut(runs: Sequence[HostRun | LaunchRun], measured: Collection[str]) -> list[HostRun | LaunchRun]:
    """The runs, of which those with a result of a vector program end there, and go on as another."""
    found: list[HostRun | LaunchRun] = []
    for whole in runs:
        if isinstance(whole, LaunchRun):
            found.append(whole)
            continue
        part = HostRun()
        for binding in whole.bindings:
            part.bindings.append(binding)
            if str(binding.var.name) in measured:
                found.append(part)
                part = HostRun()
        if part.bindings:
            found.append(part)
    return found


def _wide(
    imported: ImportedModel,
    nodes: ModelNodes,
    var: relax.Var,
    bound: Mapping[relax.Var, Any],
    values: Values,
    between: Collection[str],
) -> Array | None:
    """A tensor as ONNX's own evaluator has it, in double precision; None of an operator that it lacks.

    ``values`` are those from which the bounds of the tensor begin, or within these. What onnxruntime rounded on the way
    is neither, and is computed again; ``bound`` are the graph's own operators, of which it may be moved since.
    """
    if var in values:
        return values[var]
    source = source_of(bound.get(var))
    if source is not None:
        before = _wide(imported, nodes, source, bound, values, between)
        return None if before is None else moved(bound[var], var.ty, before)
    makers = {name: each for each in bound for name in imported.tensors.get(str(each.name), ())}
    try:
        (wanted,), known = _asked(imported, [var], values)
        for name in nodes.lacking(wanted, known):
            own = makers.get(name) if name != wanted else None  # else nothing of the graph that has a rule here
            found = None if own is None else _wide(imported, nodes, own, bound, values, between)
            if found is None:
                return None
            known[name] = found
        return nodes.run_wide(wanted, known, between)
    except CompileError:
        return None


def _is_operand(var: Any, result: VectorResult) -> bool:
    return any(isinstance(name, str) and name == str(var.name) for name in result.operands)


def _read(step: HostRun | LaunchRun) -> set[relax.Var]:
    values = [step.call] if isinstance(step, LaunchRun) else [binding.value for binding in step.bindings]
    return {var for value in values for var in free_vars(value)}


def _evaluate(module: ir.IRModule, step: LaunchRun, values: Values, deadline: Deadline) -> None:
    """A call of a composite, an operator that numpy has, or another name for a value."""
    value: Any = step.call
    if not isinstance(value, ir.Call):
        if isinstance(value, relax.Var | ir.GenericConst):
            values[step.var] = _value(value, values)
        return  # a tuple is taken apart where it is used
    if isinstance(value.op, ir.GlobalVar) and is_known(module[value.op]):
        arguments = [_value(argument, values) for argument in value.args]
        values[step.var] = run(module[value.op], arguments, deadline)
    elif isinstance(value.op, ir.Op) and is_known_call(value):
        values[step.var] = run_call(value, step.var.ty, values, deadline)
    else:
        raise CompileError(f"the reference has no rule for {value.op}", field=str(step.var.name))


def _run_nodes(
    imported: ImportedModel,
    nodes: ModelNodes,
    step: HostRun,
    outputs: list[relax.Var],
    values: Values,
    deadline: Deadline,
) -> None:
    work = sum(_work(binding, imported) for binding in step.bindings)
    if work / WORK_PER_SECOND > deadline.remaining():  # an operator cannot be stopped
        raise OutOfTimeError
    wanted, known = _asked(imported, outputs, values)
    values.update(zip(outputs, nodes.run(wanted, known, _made(imported, step), deadline), strict=True))


def _asked(imported: ImportedModel, outputs: Sequence[relax.Var], values: Values) -> tuple[list[str], dict[str, Array]]:
    """What nodes are asked for: the names of tensors, and what is known of the model."""
    known = {name: array for var, array in values.items() for name in imported.tensors.get(str(var.name), ())}
    wanted = []
    for var in outputs:
        names = imported.tensors.get(str(var.name), ())
        if not names:
            raise CompileError(f"{var.name} is no tensor of the model", field=str(var.name))
        wanted.append(names[0])
    return wanted, known


def _made(imported: ImportedModel, step: HostRun) -> set[str]:
    """The tensors of the model that may be made on the way through a step."""
    made = {name for bound in step.bindings for name in imported.tensors.get(str(bound.var.name), ())}
    return made | {inner for name in made for inner in imported.inner.get(name, ())}


def _work(binding: relax.Binding, imported: ImportedModel) -> int:
    call = read_onnx_call(binding.value)
    if call is None:
        names = imported.tensors.get(str(binding.var.name), ())
        nodes = sum(len(imported.inner.get(name, ())) for name in names)
        return nodes * math.prod(int(extent) for extent in binding.var.ty.shape.values) if nodes else 0
    results = binding.var.ty.fields if isinstance(binding.var.ty, relax.TupleType) else [binding.var.ty]
    return _work_of_call(call, results)


def _work_of_call(call: OnnxCall, results: Sequence[relax.Type]) -> int:
    types: dict[str, Tensor] = {}
    names: list[str] = []
    for place, operand in enumerate((*(operand for operand in call.operands), *results)):
        ty = getattr(operand, "ty", operand)
        names.append("" if operand is None else str(place))
        if operand is not None:
            types[str(place)] = tuple(int(extent) for extent in ty.shape.values), str(ty.dtype)
    count = len(call.operands)
    return work_of(HostNode(call.op, tuple(names[:count]), tuple(names[count:]), call.attributes), types)


def _value(expr: relax.Expr, values: Values) -> Array:
    return values[expr] if isinstance(expr, relax.Var) else expr.value.numpy()
