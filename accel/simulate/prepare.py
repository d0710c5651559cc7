"""Compiling ahead: a worker does this once, before it forks the processes that simulate."""

from accel.accelerator.document import Accelerator
from accel.isa.compiled import BYTES, CUBE, MATRIX, SCALAR, VECTOR, WORD_MATRIX, WORDS, compile_now
from accel.isa.decode import prepare_decode
from accel.isa.vta import function_kernel, races_kernel
from accel.isa.vta.function import geometry
from accel.isa.vta.timing_table import prepare_timing


def prepare(accelerator: Accelerator) -> None:
    """Compile what simulating on ``accelerator`` runs; run none of it, so that forking afterwards is safe.

    What is compiled serves every later simulation of this process, and of processes forked from it, on accelerators
    of the same shapes.
    """
    function_kernel.build(geometry(accelerator))
    prepare_decode()
    prepare_timing()
    compile_now(
        races_kernel.find, MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, CUBE, CUBE, VECTOR, VECTOR, WORDS, WORDS, VECTOR,
        MATRIX, SCALAR, VECTOR, BYTES, WORD_MATRIX, MATRIX, MATRIX,
    )  # fmt: skip
