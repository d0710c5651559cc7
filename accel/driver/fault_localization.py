"""Find where a wrong output began: the first launch whose result differs, and the instruction that stored it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax

from accel.host.host_executor import HostFunction
from accel.host.host_graph_reader import check_graph
from accel.host.relax_rules import RULES
from accel.host.relax_translation import translate
from accel.lowering.ir.function_attributes import LAUNCHES, load_launches, region_of
from accel.lowering.ir.host_runs import (
    HostRun,
    LaunchRun,
    free_vars,
    host_module,
    needed_bindings,
    split_main,
    wholes,
)
from accel.program.program_model import Program
from accel.simulate.engine import Simulation, last_writer
from accel.simulate.machine_state import segment_view
from accel.util.arrays import Array


@dataclass(frozen=True)
class LocatedFault:
    """The first wrong element of the first wrong launch, in packed layout, and the instruction that stored it."""

    launch: str
    tensor: str
    element: tuple[int, ...]
    got: int
    expected: int
    instruction: int | None

    def __str__(self) -> str:
        """One sentence for the problem's detail."""
        writer = "no instruction" if self.instruction is None else f"instruction {self.instruction}"
        return (
            f"launch {self.launch} is the first to go wrong: {self.tensor}{list(self.element)} is {self.got} "
            f"instead of {self.expected}, stored by {writer}"
        )


def locate_fault(
    packed: ir.IRModule, program: Program, simulation: Simulation, inputs: Mapping[str, Array]
) -> LocatedFault | None:
    """Compare every launch's result with the packed module (as ``pack`` left it) run on the host.

    Host steps run as those of a program do; only the accelerator's functions are compiled, and one after the other.
    ``inputs`` are the program's. None if all launches agree: then the host steps differ.
    """
    values: dict[Any, list[Array]] = {
        parameter: [inputs[name]] for parameter, name in zip(packed["main"].params, program.inputs, strict=True)
    }
    runs, launches, parts = split_main(packed), iter(simulation.launches), wholes(packed)
    infos = load_launches(str(packed["main"].attrs[LAUNCHES]))
    for at, run in enumerate(runs):
        if isinstance(run, HostRun):
            _run_host(packed, run, _read_later(runs[at + 1 :]), values)
            continue
        arguments = [_tensor(argument, values) for argument in run.call.args[1].fields]
        around = infos[str(run.var.name)].border or 0
        whole = parts.get(run.var, run.var)
        made = _run_region(packed[run.call.args[0]], arguments, run.var.ty, around, values.get(whole))
        values[whole] = made
        region = region_of(packed[run.call.args[0]])
        views = region.views[len(arguments) :] if region is not None else ()
        found = itertools.zip_longest(next(launches).launch.outputs, made, views)
        for name, expected, view in found:
            segment = program.segments[name]
            got = segment_view(simulation.dram, segment)
            differs = got != expected
            if whole is not run.var and view is not None:  # others write the rest
                inside = np.zeros(differs.shape, bool)
                inside.reshape(-1)[np.unique(view.of(np.arange(differs.size).reshape(differs.shape)))] = True
                differs &= inside
            wrong = np.argwhere(differs)
            if len(wrong):
                return _located(program, simulation, name, (got, expected), tuple(int(i) for i in wrong[0]))
    return None


def _located(
    program: Program, simulation: Simulation, name: str, values: tuple[Array, Array], at: tuple[int, ...]
) -> LocatedFault:
    (got, expected), segment = values, program.segments[name]
    address = segment.address + int(np.ravel_multi_index(at, got.shape)) * got.itemsize
    writer = last_writer(program, simulation, address)
    launch = next(result.launch for result in simulation.launches if name in result.launch.outputs)
    return LocatedFault(launch.name, name, at, int(got[at]), int(expected[at]), writer)


def _read_later(runs: Sequence[HostRun | LaunchRun]) -> set[Any]:
    bound = [[run.call] if isinstance(run, LaunchRun) else [b.value for b in run.bindings] for run in runs]
    return {var for values in bound for value in values for var in free_vars(value)}


def _run_host(packed: ir.IRModule, run: HostRun, later: set[Any], values: dict[Any, list[Array]]) -> None:
    """The host's bindings that launches need; planes of a launch's result are only named."""
    for binding in run.bindings:
        value = binding.value
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in values:
            values[binding.var] = [values[value.tuple_value][value.index]]
    # a tensor of parts is there once they are
    left = [binding for binding in run.bindings if binding.var not in values]
    outputs = [b.var for b in left if b.var in later and isinstance(b.var.ty, relax.TensorType)]
    if not outputs:
        return
    step, taken = host_module(packed, HostRun(needed_bindings(left, outputs)), outputs)
    function = HostFunction(check_graph(translate(step, RULES)))
    results = function.run([values[var][0] for var in taken])
    values.update((var, [result]) for var, result in zip(outputs, results, strict=True))


def _tensor(argument: Any, values: Mapping[Any, list[Array]]) -> Array:
    array: Array = values[argument][0] if isinstance(argument, relax.Var) else argument.value.numpy()
    return array


def _run_region(
    function: Any, arguments: Sequence[Array], ty: Any, around: int, begun: Sequence[Array] | None
) -> list[Array]:
    """The results of a region, as its tensor expressions say: compiled for this machine; ``around`` are its borders.

    ``begun`` is what other launches wrote of them.
    """
    types = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    results = [np.full([int(extent) for extent in each.shape.values], around, str(each.dtype)) for each in types]
    results = list(begun or results)
    # those that lie as the function has them may have other dimensions
    tensors = [
        tvm.runtime.tensor(np.asarray(array, order="C").reshape([int(extent) for extent in parameter.shape]))
        for array, parameter in zip((*arguments, *results), function.params, strict=True)
    ]
    plain = function.with_attr("global_symbol", "region")
    tvm.compile(ir.IRModule({"region": plain}), target="llvm")["region"](*tensors)
    return [
        tensor.numpy().reshape(result.shape) for tensor, result in zip(tensors[len(arguments) :], results, strict=True)
    ]
