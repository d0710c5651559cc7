"""Compiling ahead: a worker does this once, before it forks the processes that simulate."""

import accel.isa.numba_dispatcher  # noqa: F401 - numba is loaded once, not by each process that simulates
from accel.accelerator.document import Accelerator
from accel.isa.decode import prepare_decode
from accel.isa.family_registry import family_of


def prepare(accelerator: Accelerator) -> None:
    """Compile what simulating on ``accelerator`` runs; run none of it, so that forking afterwards is safe.

    What is compiled serves every later simulation of this process, and of processes forked from it, on accelerators
    of the same shapes.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    prepare_decode()
    family_of(accelerator).prepare(accelerator)
