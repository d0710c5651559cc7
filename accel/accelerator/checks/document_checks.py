"""The checks of a document in their order: that its parts agree, and that the compiler can use it.

Checks that take nothing of each other for granted all run, and what they find is raised together.
:func:`check_document` refuses a machine on which no program could run, :func:`check_compilable` one for which nothing
could be compiled, or of which a part would be idle.
"""

from accel.accelerator.checks.cost_checks import check_energy
from accel.accelerator.checks.dataflow_checks import check_copies, check_reach
from accel.accelerator.checks.field_checks import (
    check_encoding,
    check_instruction,
    check_patterns,
    check_roles,
    check_unit,
)
from accel.accelerator.checks.layer_checks import check_layer_expressions, check_layer_room
from accel.accelerator.checks.memory_checks import check_addresses, check_capacity, check_views
from accel.accelerator.checks.semantics_checks import (
    COPY_COST_NAMES,
    COST_NAMES,
    check_costs,
    check_semantics,
    check_shadows,
)
from accel.accelerator.checks.token_checks import check_tokens
from accel.accelerator.document import Accelerator, Composite, Operator
from accel.accelerator.instructions import AnyInstruction, Compute, Copy, Instruction, Layer, LayerOperation
from accel.accelerator.require import require, require_distinct, require_known, together
from accel.accelerator.tables import AnyTable, InterpolatedTable
from accel.expression.element_types import limits
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import ExpressionError

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


def check_names(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Refuses a pragma that the compiler or TVM acts on, and fields that hide a name of the cost language.

    Raises:
        InvalidAccelerator: ``field`` is the path of the pragma, or of the name of the field.
    """
    moving = {name for copy in accelerator.instructions if isinstance(copy, Copy) for name in copy.sequence}
    copies = isinstance(instruction, Copy) or instruction.name in moving
    taken = (*COST_NAMES, *(COPY_COST_NAMES if copies else ()))
    with together() as apart:
        if isinstance(instruction, Copy | Compute | Layer):
            with apart():
                _check_pragma(f"{path}.pragma", instruction.pragma)
        for number, field in enumerate(instruction.fields):
            with apart():
                free = f"({', '.join(taken)}); the field needs another name"
                hides = f"{field.name} is a number that costs may name {free}"
                require(field.name not in taken, f"{path}.fields.{number}.name", hides)


def _check_pragma(path: str, pragma: str) -> None:
    free = "an instruction needs a pragma of its own, such as pragma_gemm"
    require(pragma != CONTEXTS_PRAGMA, path, f"{pragma} says how many copies of a buffer there are; {free}")
    require(pragma not in TVM_PRAGMAS, path, f"{pragma} is one that TVM acts on; {free}")


def check_bus(accelerator: Accelerator) -> None:
    """Refuses a bus that units share which are none, or do not copy, and a time on it of copies that have it alone.

    Raises:
        InvalidAccelerator: ``field`` is the path of the unit, or of the time.
    """
    units, at = accelerator.dram.shared_by, "dram.shared_by"
    copies = [(n, each) for n, each in enumerate(accelerator.instructions) if isinstance(each, Copy)]
    moving = [copy.unit for _, copy in copies]
    with together() as apart:
        with apart():
            require_distinct(units, at)
        with apart():
            require(len(units) != 1, at, f"{', '.join(units)} alone; a bus is shared by two units at least, or by none")
        for number, unit in enumerate(units):
            with apart():
                require_known(unit, accelerator.units, f"{at}.{number}", "unit")
                require(
                    unit in moving, f"{at}.{number}", f"{unit} has no copies; those of {_listed(moving)} use the bus"
                )
        for number, copy in copies:
            with apart():
                alone = f"unit {copy.unit} shares the bus with none; it must be in dram.shared_by, or this left out"
                require(copy.bus_cycles is None or copy.unit in units, f"instructions.{number}.bus_cycles", alone)


def check_tables(accelerator: Accelerator) -> None:
    """Refuses numbers that the type of their table cannot hold, and tables that no expression uses.

    Raises:
        InvalidAccelerator: ``field`` is the path of the number, or of the table.
    """
    used = {
        name
        for instruction in accelerator.instructions
        if isinstance(instruction, Copy | Compute | Layer)
        for operation in instruction.operations
        for does in (operation.statements if isinstance(operation, LayerOperation) else (operation.does,))
        for name in _tables_of(does)
    }
    with together() as apart:
        for number, table in enumerate(accelerator.tables):
            at = f"tables.{number}"
            with apart():
                _check_numbers(f"{at}.values", table)
            with apart():
                idle = f"no expression looks anything up in {table.name}; use it, or leave it out"
                require(table.name in used, at, idle)
            if isinstance(table, InterpolatedTable):
                with apart():
                    require(table.low < table.high, f"{at}.high", f"{table.high:g}; it is above low, {table.low:g}")


def _tables_of(does: str) -> tuple[str, ...]:
    try:
        return parse_statement(does).tables
    except ExpressionError:  # it is refused at its own place
        return ()


def _check_numbers(path: str, table: AnyTable) -> None:
    dtype = table.lookup().dtype
    for number, value in enumerate(table.values):
        if dtype == "float32":
            require(abs(value) <= _GREATEST, f"{path}.{number}", f"{value:g}; a float32 is {_GREATEST:g} at most")
            continue
        low, high = limits(dtype)
        whole = f"{value:g}; {table.name} has numbers of {dtype}, {low} to {high}"
        require(value.is_integer() and low <= value <= high, f"{path}.{number}", whole)


_GREATEST = 3.4028234e38


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "no unit"


_ENDINGS: tuple[tuple[Operator, ...], ...] = ((), ("bias",), ("requantize", "clip"), ("bias", "requantize", "clip"))


def check_composites(accelerator: Accelerator) -> None:
    """Refuses composites whose operators do not follow in an order that layers have, and repeated composites.

    Raises:
        InvalidAccelerator: ``field`` is the path of the operators.
    """
    seen: dict[tuple[Operator, ...], str] = {}
    known = "; ".join(", ".join(ending) for ending in _ENDINGS if ending)
    with together() as apart:
        for index, composite in enumerate(accelerator.composites):
            at = f"composites.{index}.operators"
            first, *others = composite.operators
            with apart():
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
    named: tuple[tuple[str, list[str]], ...] = (
        ("memories", [memory.name for memory in accelerator.memories]),
        ("memories", [memory.scope for memory in accelerator.memories]),
        ("units", list(accelerator.units)),
        ("instructions", [instruction.name for instruction in accelerator.instructions]),
        ("tables", [table.name for table in accelerator.tables]),
        ("composites", [composite.name for composite in accelerator.composites]),
    )
    with together() as apart:
        for path, names in named:
            with apart():
                require_distinct(names, path)
        with apart():
            check_views(accelerator)
        for index, instruction in enumerate(accelerator.instructions):
            with apart():
                _check_instruction(f"instructions.{index}", instruction, accelerator)
        with apart():
            check_patterns(accelerator)
        for check in (check_bus, check_tables):
            with apart():
                check(accelerator)
        for index, composite in enumerate(accelerator.composites):
            with apart():
                _check_composite(f"composites.{index}.operators", composite)


def _check_instruction(path: str, instruction: AnyInstruction, accelerator: Accelerator) -> None:
    """The checks of one instruction; those of its fields take for granted what those before them have seen."""
    with together() as apart:
        with apart():
            check_encoding(path, instruction, accelerator)
            _check_fields_in_use(path, instruction, accelerator)
        for check in (check_names, check_unit):
            with apart():
                check(path, instruction, accelerator)


def _check_fields_in_use(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    with together() as apart:
        with apart():
            check_roles(path, instruction, accelerator)
            check_instruction(path, instruction, accelerator)
            check_semantics(path, instruction, accelerator)
            if isinstance(instruction, Layer):
                check_layer_expressions(path, instruction, accelerator)
        check_costs(path, instruction, accelerator)


def _check_composite(path: str, composite: Composite) -> None:
    first, *others = composite.operators
    with together() as apart:
        with apart():
            require(first in _FIRST, f"{path}.0", f"{first}; the first is {', '.join(_FIRST[:-1])} or {_FIRST[-1]}")
        for index, name in enumerate(others, 1):
            with apart():
                require(name not in _FIRST, f"{path}.{index}", f"{name} is no operator that follows another; {_OTHERS}")


def check_compilable(accelerator: Accelerator) -> None:
    """Refuses a document for which no program can be compiled, and one with parts that no program can use.

    ``accelerator`` has passed :func:`check_document`.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    checks = (
        check_reach,
        check_copies,
        check_shadows,
        check_capacity,
        check_addresses,
        check_layer_room,
        check_tokens,
        check_composites,
        check_energy,
    )
    with together() as apart:
        for check in checks:
            with apart():
                check(accelerator)
