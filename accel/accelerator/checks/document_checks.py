"""The checks of a document in their order: that its parts agree, and that the compiler can use it.

:func:`check_document` refuses a machine on which no program could run, :func:`check_compilable` one for which nothing
could be compiled, or of which a part would be idle.
"""

from accel.accelerator.checks.cost_checks import check_energy
from accel.accelerator.checks.dataflow_checks import check_copies, check_reach
from accel.accelerator.checks.field_checks import check_encodings, check_instruction, check_roles
from accel.accelerator.checks.memory_checks import check_addresses, check_capacity
from accel.accelerator.checks.semantics_checks import COPY_COST_NAMES, COST_NAMES, check_semantics, check_shadows
from accel.accelerator.checks.token_checks import check_tokens
from accel.accelerator.document import Accelerator, Composite, Operator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.require import require, require_distinct

CONTEXTS_PRAGMA = "pragma_contexts"
"""The compiler's own pragma: how many copies of each buffer of a loop there are."""

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
"""The pragmas that TVM 0.27 removes or acts on."""


def check_names(accelerator: Accelerator) -> None:
    """Refuses pragmas that the compiler or TVM acts on, and fields that hide a name of the cost language.

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


_ENDINGS: tuple[tuple[Operator, ...], ...] = ((), ("bias",), ("requantize", "clip"), ("bias", "requantize", "clip"))


def check_composites(accelerator: Accelerator) -> None:
    """Refuses composites whose operators do not follow in an order that layers have, and repeated composites.

    Raises:
        InvalidAccelerator: ``field`` is the path of the operators.
    """
    seen: dict[tuple[Operator, ...], str] = {}
    known = "; ".join(", ".join(ending) for ending in _ENDINGS if ending)
    for index, composite in enumerate(accelerator.composites):
        at = f"composites.{index}.operators"
        first, *others = composite.operators
        found = f"{', '.join(others)} after {first}; what may follow is nothing, or: {known}"
        require(tuple(others) in _ENDINGS, at, found)
        again = f"these are the operators of {seen.get(composite.operators)}; each composite needs others"
        require(composite.operators not in seen, at, again)
        seen[composite.operators] = composite.name


_FIRST = ("conv2d", "dense", "add")
_OTHERS = "bias, requantize and clip are"


def check_document(accelerator: Accelerator) -> None:
    """Refuses a document that contradicts itself: an ambiguous encoding, a name that is not defined, or a wrong type.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    require_distinct([memory.name for memory in accelerator.memories], "memories")
    require_distinct([memory.scope for memory in accelerator.memories], "memories")
    require_distinct(accelerator.units, "units")
    require_distinct([instruction.name for instruction in accelerator.instructions], "instructions")
    require_distinct([composite.name for composite in accelerator.composites], "composites")
    check_encodings(accelerator)
    check_names(accelerator)
    for index, instruction in enumerate(accelerator.instructions):
        path = f"instructions.{index}"
        check_roles(path, instruction, accelerator)
        check_instruction(path, instruction, accelerator)
        check_semantics(path, instruction, accelerator)
    for index, composite in enumerate(accelerator.composites):
        _check_composite(f"composites.{index}.operators", composite)


def _check_composite(path: str, composite: Composite) -> None:
    first, *others = composite.operators
    require(first in _FIRST, f"{path}.0", f"{first}; the first is {', '.join(_FIRST[:-1])} or {_FIRST[-1]}")
    for index, name in enumerate(others, 1):
        require(name not in _FIRST, f"{path}.{index}", f"{name} is no operator that follows another; {_OTHERS}")


def check_compilable(accelerator: Accelerator) -> None:
    """Refuses a document for which no program can be compiled, and one with parts that no program can use.

    ``accelerator`` has passed :func:`check_document`.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    check_reach(accelerator)
    check_copies(accelerator)
    check_shadows(accelerator)
    check_capacity(accelerator)
    check_addresses(accelerator)
    check_tokens(accelerator)
    check_composites(accelerator)
    check_energy(accelerator)
