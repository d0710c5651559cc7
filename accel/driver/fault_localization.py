"""Find where a wrong output began: the first launch whose result differs, and the instruction that stored it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax

from accel.host.host_executor import compile_module, run_compiled
from accel.lowering.ir.host_runs import is_launch
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

    ``inputs`` are the program's. None if all launches agree: then the host steps differ.
    """
    ordered = [inputs[name] for name in program.inputs]
    reference = iter(run_compiled(compile_module(_all_results(packed)), ordered))
    for result in simulation.launches:
        for name in result.launch.outputs:
            segment = program.segments[name]
            got, expected = segment_view(simulation.dram, segment), next(reference)
            wrong = np.argwhere(got != expected)
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                address = segment.address + int(np.ravel_multi_index(at, got.shape)) * got.itemsize
                writer = last_writer(program, simulation, address)
                return LocatedFault(result.launch.name, name, at, int(got[at]), int(expected[at]), writer)
    return None


def _all_results(packed: ir.IRModule) -> ir.IRModule:
    """The module with ``main`` returning every tensor that a launch stores, in order."""
    main = packed["main"]
    results, extra = [], []
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    for binding in bindings:
        if not is_launch(packed, binding.value):
            continue
        if isinstance(binding.var.ty, relax.TensorType):
            results.append(binding.var)
            continue
        for plane in range(len(binding.var.ty.fields)):
            var = relax.DataflowVar(f"{binding.var.name}_{plane}", binding.var.ty.fields[plane])
            extra.append(relax.VarBinding(var, relax.TupleGetItem(binding.var, plane)))
            results.append(var)
    everything = relax.Var("results", relax.TupleType([var.ty for var in results]))
    block = relax.DataflowBlock([*bindings, *extra, relax.VarBinding(everything, relax.Tuple(results))])
    body = relax.BlockBuilder().normalize(relax.SeqExpr([block], everything))
    module = ir.IRModule(dict(packed.functions.items()), attrs=packed.attrs)
    function = relax.Function(main.params, body, everything.ty, main.is_pure, main.attrs)
    module.update_func(module.get_global_var("main"), function)
    return module
