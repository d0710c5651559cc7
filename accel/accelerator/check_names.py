"""Names that mean something else already: pragmas of the compiler and of TVM, numbers that costs may name."""

from accel.accelerator.check_meanings import COPY_COST_NAMES, COST_NAMES
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.require import require

CONTEXTS_PRAGMA = "pragma_contexts"
"""The compiler's own: how many copies of each buffer of a loop there are."""

TVM_PRAGMAS = frozenset(
    f"pragma_{name}"
    for name in (
        "auto_unroll_max_step",
        "debug_skip_region",
        "import_c",
        "import_llvm",
        "loop_partition_hint",
        "parallel",
        "parallel_barrier_when_finish",
        "parallel_launch_point",
        "parallel_stride_pattern",
        "scope",
        "unroll",
        "unroll_explicit",
        "vectorize",
    )
)
"""Those that TVM 0.27 takes away or acts on."""


def check_names(accelerator: Accelerator) -> None:
    """Refuse pragmas that others act on, and fields that hide a number from costs.

    Raises:
        InvalidAccelerator: ``field`` is the path of the pragma, or of the name of the field.
    """
    moving = {name for copy in accelerator.instructions if isinstance(copy, Copy) for name in copy.sequence}
    for index, instruction in enumerate(accelerator.instructions):
        if isinstance(instruction, Copy | Compute):
            _check_pragma(f"instructions.{index}.pragma", instruction.pragma)
        copies = isinstance(instruction, Copy) or instruction.name in moving
        taken = (*COST_NAMES, *(COPY_COST_NAMES if copies else ()))
        for number, field in enumerate(instruction.fields):
            hides = f"{field.name} is a number that costs may name ({', '.join(taken)}); the field needs another name"
            require(field.name not in taken, f"instructions.{index}.fields.{number}.name", hides)


def _check_pragma(path: str, pragma: str) -> None:
    free = "an instruction needs a pragma of its own, such as pragma_gemm"
    require(pragma != CONTEXTS_PRAGMA, path, f"{pragma} says how many copies of a buffer there are; {free}")
    require(pragma not in TVM_PRAGMAS, path, f"{pragma} is one that TVM acts on; {free}")
