"""Compilation of simulation kernels ahead of time, once, before a worker forks the processes that simulate."""

import accel.isa.numba_dispatcher  # noqa: F401 - numba is loaded once, not by each process that simulates
from accel.accelerator.document import Accelerator
from accel.isa.decode import prepare_decode
from accel.isa.family_registry import family_of
from accel.isa.kernel_library import load_kernel


def prepare(accelerator: Accelerator) -> None:
    """Compiles the kernels of ``accelerator`` and runs none of them, so that forking afterwards is safe.

    The kernels serve every later simulation of this process, and of processes forked from it, on accelerators of the
    same shapes.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    prepare_decode()
    family = family_of(accelerator)
    family.prepare(accelerator)
    for source in family.kernel_sources(accelerator):
        load_kernel(source)
