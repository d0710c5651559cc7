"""Host steps: Relax functions, compiled so that each operator computes what it would alone."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.target import codegen

from accel.errors import SimulationError
from accel.host.bounded_execution import MOST_SECONDS, guard
from accel.host.host_graph_reader import read_host_graph
from accel.host.numpy_executor import run_in_numpy, runs_in_numpy
from accel.util.arrays import Array

# No fusion: fused float operators may round otherwise than one by one, and host steps are compared bit by bit.
PASSES = (
    relax.transform.RewriteDataflowReshape,
    relax.transform.ToNonDataflow,
    relax.transform.RemovePurityChecking,
    relax.transform.CallTIRRewrite,
    relax.transform.StaticPlanBlockMemory,
    relax.transform.LowerAllocTensor,
    relax.transform.KillAfterLastUse,
    relax.transform.LowerRuntimeBuiltin,
    relax.transform.VMShapeLower,
    relax.transform.AttachGlobalSymbol,
)


def compile_module(module: Any, seconds: float = MOST_SECONDS) -> Any:
    """Compile an IRModule with a Relax function ``main``, or several, for the machine at hand; runs nothing.

    Args:
        module: what to compile.
        seconds: about how long running all of it may take.

    Raises:
        SimulationError: running it would take more work or memory than the limits of
        ``accel/host/bounded_execution.py``.
    """
    target = tvm.target.Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu()})
    with target:
        safe = guard(relax.transform.LegalizeOps()(module), seconds)
    return tvm.compile(safe, target=target, relax_pipeline=tvm.transform.Sequential([make() for make in PASSES]))


class HostFunctions:
    """Host graphs by their text, ready to run: plain ones as they are, others compiled, identical ones once."""

    def __init__(self) -> None:
        self._ready: dict[str, Callable[[Sequence[Array]], list[Array]]] = {}

    def prepare(self, text: str) -> None:
        """Compile the graph if need be; whoever made the Program has decided whether to trust it.

        Raises:
            SimulationError: the text is no host graph, does not compile, or asks for too much.
        """
        if text not in self._ready:
            try:
                self._ready[text] = _runner(read_host_graph(text, trust_host_code=True))
            except SimulationError:
                raise
            except Exception as error:
                raise SimulationError(f"a host step does not compile: {error}", kind="host-step") from error

    def run(self, text: str, inputs: Sequence[Array]) -> list[Array]:
        """Run ``main`` on copies of ``inputs``; a tensor or a tuple of tensors comes back as a list.

        Raises:
            SimulationError: as :meth:`prepare`, or the inputs are not what the graph takes.
        """
        self.prepare(text)
        try:
            return self._ready[text](inputs)
        except Exception as error:  # TVM raises what it likes
            raise SimulationError(f"a host step does not run: {error}", kind="host-step") from error


def _runner(module: Any) -> Callable[[Sequence[Array]], list[Array]]:
    return partial(run_in_numpy, module) if runs_in_numpy(module) else partial(run_compiled, compile_module(module))


def run_compiled(executable: Any, inputs: Sequence[Array]) -> list[Array]:
    """Run ``main`` of what :func:`compile_module` made."""
    machine = relax.VirtualMachine(executable, tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(np.asarray(array, order="C")) for array in inputs))
    return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [tensor.numpy() for tensor in result]
