"""Function of a document: what a launch leaves in DRAM and in the on-chip memories, bit by bit.

One TIR function runs a launch's instructions in program order. It takes the launch as a table, one row an instruction,
whose columns depend on the instruction's sort.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

from accel.accelerator.document import Accelerator, InOrderSync
from accel.accelerator.instructions import Compute, Copy, Layer
from accel.accelerator.memories import DTYPE_BYTES, Dram, DType
from accel.expression.element_types import held_as
from accel.expression.loop_builder import Place, build_loops
from accel.isa.decode import Decoded
from accel.isa.explicit.hazards.accesses import copying, extents_of
from accel.isa.explicit.hazards.boxes import check_bounds
from accel.isa.explicit.layer_function import LayerStatement, layer_numbers, layer_values
from accel.isa.explicit.operations import Executions, InstructionOperation, executions_of, sorts_of
from accel.isa.family import KernelSource
from accel.isa.kernels.kernel_library import load_kernel
from accel.util.arrays import Array, Bytes, Int64, aligned_zeros

CODE = 0
COPY = ("sram", "dram", "rows", "columns", "row_stride", "top", "left", "height", "width")
_DIMENSION = ("extents", "dram_steps", "chip_steps")


@dataclass(frozen=True)
class Columns:
    """Which column of a row holds what, for one sort.

    ``shape`` are those of a copy, by their names in ``COPY``, or of a layer, see ``layer_numbers``. Of a compute,
    ``extents`` has one for each loop, ``bases`` and ``steps`` one for each tensor, the latter for each of its loops.
    """

    shape: dict[str, int]
    extents: tuple[int, ...]
    bases: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    scalars: tuple[int, ...]

    @property
    def count(self) -> int:
        """Columns that the sort needs, the code among them."""
        loops = sum(map(len, self.steps))
        return 1 + len(self.shape) + len(self.extents) + len(self.bases) + loops + len(self.scalars)


def columns_of(sort: InstructionOperation) -> Columns:
    """Where the kernel finds the numbers of ``sort``; column ``CODE`` holds its code."""
    free = iter(range(CODE + 1, 1 << 16))
    if isinstance(sort.instruction, Copy):
        shape = {name: next(free) for name in (*COPY, *_dimension_names(sort.instruction))}
        bases = tuple(next(free) for _ in sort.tensors)
        return Columns(shape, (), bases, (), tuple(next(free) for _ in sort.scalars))
    if isinstance(sort.instruction, Layer):
        numbers = {name: next(free) for name in layer_numbers(sort.instruction)}
        return Columns(numbers, (), (), (), tuple(next(free) for _ in sort.scalars))
    extents = tuple(next(free) for _ in sort.instruction.loops)
    bases = tuple(next(free) for _ in sort.tensors)
    steps = tuple(tuple(next(free) for _ in tensor.steps) for tensor in sort.tensors)
    return Columns({}, extents, bases, steps, tuple(next(free) for _ in sort.scalars))


def _dimension_names(copy: Copy) -> list[str]:
    """The names of the columns of a copy's further dimensions."""
    return [f"{name}.{number}" for name in _DIMENSION for number in range(len(copy.dimensions))]


def table_width(sorts: tuple[InstructionOperation, ...]) -> int:
    """Columns of the table: those of the sort that needs most."""
    return max((columns_of(sort).count for sort in sorts), default=1)


def launch_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, width); instructions that do nothing have code 0.

    Raises:
        SimulationError: see :func:`executions_of`.
    """
    width = table_width(sorts_of(decoded.accelerator))
    table = aligned_zeros(len(decoded) * width * 8).view(np.int64).reshape(-1, width)
    for executions in executions_of(decoded):
        _fill(table, executions)
    return table


def _fill(table: Int64, executions: Executions) -> None:
    """The rows of one sort."""
    sort, words = executions.sort, executions.words
    columns, rows = columns_of(sort), words.rows
    table[rows, CODE] = sort.code
    if isinstance(sort.instruction, Copy):
        _fill_copy(table, executions, sort.instruction)
    elif isinstance(sort.instruction, Layer):
        for name, values in layer_values(words, sort.instruction).items():
            table[rows, columns.shape[name]] = values
    elif isinstance(sort.instruction, Compute):
        for extent, column in zip(extents_of(words, sort.instruction.loops), columns.extents, strict=True):
            table[rows, column] = extent
        for tensor, base, steps in zip(sort.tensors, columns.bases, columns.steps, strict=True):
            table[rows, base] = words.column(tensor.address)
            for step, column in zip(tensor.steps, steps, strict=True):
                table[rows, column] = words.column(step) if isinstance(step, str) else step
    for (_, field), column in zip(sort.scalars, columns.scalars, strict=True):
        table[rows, column] = words.column(field)


def _fill_copy(table: Int64, executions: Executions, copy: Copy) -> None:
    """The shape of copies, and where what they read beside lies."""
    columns, words = columns_of(executions.sort), executions.words
    shape, size = copying(words, copy), DTYPE_BYTES[copy.dram_dtype]
    for name, column in columns.shape.items():
        role, _, number = name.partition(".")
        values = getattr(shape, role)
        values = values[int(number)] if number else values
        table[words.rows, column] = values // size if role in ("dram", "row_stride", "dram_steps") else values
    for tensor, base in zip(executions.sort.tensors, columns.bases, strict=True):
        table[words.rows, base] = words.column(tensor.address)


Int = Any  # a tirx.Expr of int64; TVM's operators are untyped
_FAMILY = "explicit"
_FREE = {"cycles": None, "energy": None}
_ANY: dict[str, Any] = {
    **dict.fromkeys(("name", "title"), "any"),
    "parameters": {},
    "source": {},
    "family": _FAMILY,
    "clock_mhz": 1.0,
    "synchronisation": InOrderSync(),
    "composites": (),
    "dram": Dram(),
}


def source_of(accelerator: Accelerator) -> KernelSource:
    """Returns what the kernel is made of: ``launch(table, *drams, *memories, *tables)``, see :func:`dram_types`.

    ``memories`` are flat, ``tables`` the numbers of the document's. The kernel keeps no state, and is the same whatever
    the document says of times, energies and the sizes of memories.
    """
    parts = {
        "memories": tuple(memory.model_copy(update={"depth": 1}) for memory in accelerator.memories),
        "instructions": tuple(
            instruction.model_copy(update=_FREE | ({"bus_cycles": None} if isinstance(instruction, Copy) else {}))
            for instruction in accelerator.instructions
        ),
    }
    functional = accelerator.model_copy(update=_ANY | parts)
    return source_of_text(functional.model_dump_json())


def source_of_text(text: str) -> KernelSource:
    """Returns what the kernel of a text is made of."""
    return KernelSource(_FAMILY, text, function_of)


def function_of(text: str) -> tirx.PrimFunc:
    """Returns the function of the ``text`` of a :func:`source_of`.

    Raises:
        pydantic.ValidationError: it is none.
        ExpressionError: an expression that means nothing.
    """
    accelerator = Accelerator.model_validate_json(text)
    return _Launch(accelerator, sorts_of(accelerator), dram_types(accelerator)).function()


def dram_types(accelerator: Accelerator) -> tuple[DType, ...]:
    """Returns the types as which the kernel takes DRAM, each a view of the same bytes."""
    found: dict[DType, None] = {}
    for instruction in accelerator.instructions:
        if isinstance(instruction, Copy):
            found[instruction.dram_dtype] = None
        elif isinstance(instruction, Layer):
            operands = {name: each for name, each in instruction.operands.items() if each.dram is not None}
            for name, operand in operands.items():
                found[instruction.type_in_dram(name, accelerator.memory(operand.memory))] = None
    return tuple(found)


def _constant(value: int) -> Int:
    return tirx.const(value, "int64")


class _Launch:
    """The function over a launch, and its buffers."""

    def __init__(
        self, accelerator: Accelerator, sorts: tuple[InstructionOperation, ...], drams: tuple[DType, ...]
    ) -> None:
        self._sorts, self._accelerator = sorts, accelerator
        self._names = [memory.name for memory in accelerator.memories]
        self._count = tirx.Var("count", "int64")
        self._table = tirx.decl_buffer((self._count, table_width(sorts)), "int64", "table")
        sizes = {dtype: tirx.Var(f"{dtype}_scalars", "int64") for dtype in drams}
        self._drams = {dtype: tirx.decl_buffer((sizes[dtype],), dtype, f"dram_{dtype}") for dtype in drams}
        self._elements = [memory.element_count for memory in accelerator.memories]
        self._memories = [
            tirx.decl_buffer((tirx.Var(f"{memory.name}_scalars", "int64"),), held_as(memory.dtype), memory.name)
            for memory in accelerator.memories
        ]
        self._tables = {
            table.name: tirx.decl_buffer((len(table.values),), str(table.lookup().numbers.dtype), f"table_{table.name}")
            for table in accelerator.tables
        }

    def function(self) -> tirx.PrimFunc:
        """A loop over the rows of the table."""
        row = tirx.Var("row", "int64")
        code = tirx.Var("code", "int64")
        body = tirx.SeqStmt([tirx.Bind(code, self._table[row, CODE]), self._dispatch(self._sorts, code, row)])
        loop = tirx.For(row, _constant(0), self._count, tirx.ForKind.SERIAL, body)
        tables = self._tables.values()
        function = tirx.PrimFunc([self._table, *self._drams.values(), *self._memories, *tables], loop)
        # DRAM is there once a type, and memories once a view, so the compiler must not take buffers for distinct
        return function.with_attr({"global_symbol": "launch", "tirx.noalias": False})

    def _dispatch(self, sorts: tuple[InstructionOperation, ...], code: Int, row: Int) -> tirx.Stmt:
        """A binary tree of tests, as codes are dense."""
        if not sorts:
            return tirx.Evaluate(_constant(0))
        if len(sorts) == 1:
            return tirx.IfThenElse(code == sorts[0].code, self._execution(sorts[0], row), None)
        middle = len(sorts) // 2
        low, high = self._dispatch(sorts[:middle], code, row), self._dispatch(sorts[middle:], code, row)
        return tirx.IfThenElse(code < sorts[middle].code, low, high)

    def _execution(self, sort: InstructionOperation, row: Int) -> tirx.Stmt:
        """One execution; what it takes from the table is read once, as each store could change the table."""
        columns, read = columns_of(sort), _Read(self._table, row)
        statements = (sort.meaning,) if sort.layer is None else sort.layer.statements
        types = {name: dtype for each in statements for name, dtype in each.typed.scalars.items()}
        scalars = {
            name: read.scalar(column, types[name])
            for (name, _), column in zip(sort.scalars, columns.scalars, strict=True)
        }
        if isinstance(sort.instruction, Copy):
            body = self._copy(sort, sort.instruction, columns, scalars, read)
        elif isinstance(sort.instruction, Layer):
            assert sort.layer is not None
            number = columns.shape
            body = LayerStatement(
                sort.layer, self._accelerator, lambda name: read(number[name]), scalars, self._drams, self._tables
            ).body()
        else:
            body = self._compute(sort, sort.instruction, columns, scalars, read)
        return tirx.SeqStmt([*read.statements, body])

    def _compute(
        self, sort: InstructionOperation, compute: Compute, columns: Columns, scalars: Mapping[str, Int], read: "_Read"
    ) -> tirx.Stmt:
        variables = [tirx.Var(f"loop{number}", "int64") for number in range(len(compute.loops))]
        extents = [read(column) for column in columns.extents]
        places = {}
        for tensor, base, steps in zip(sort.tensors, columns.bases, columns.steps, strict=True):
            address = read(base)
            for variable, step in zip(variables, steps, strict=True):
                address = address + variable * read(step)
            places[tensor.name] = self._place(tensor.memory, address)
        begun: list[tirx.Stmt] = []
        body = build_loops(sort.meaning.typed, places, scalars, self._tables, begun)
        loops = _loops(variables, extents, body)
        return tirx.SeqStmt([*begun, loops]) if begun else loops

    def _copy(
        self, sort: InstructionOperation, copy: Copy, columns: Columns, scalars: Mapping[str, Int], read: "_Read"
    ) -> tirx.Stmt:
        shape = {name: read(column) for name, column in columns.shape.items()}
        memory = self._names.index(copy.memory)
        y, x = tirx.Var("y", "int64"), tirx.Var("x", "int64")
        padded = any(getattr(copy.copy_fields, f"pad_{side}") for side in ("top", "bottom", "left", "right"))
        row, column = (y - shape["top"], x - shape["left"]) if padded else (y, x)
        outer = [tirx.Var(f"d{number}", "int64") for number in range(len(copy.dimensions))]
        scalar = shape["dram"] + row * shape["row_stride"] + column * self._elements[memory]
        chip = shape["sram"] + y * shape["width"] + x
        for number, variable in enumerate(outer):
            scalar = scalar + variable * shape[f"dram_steps.{number}"]
            chip = chip + variable * shape[f"chip_steps.{number}"]
        places = {"dram": Place(self._drams[copy.dram_dtype], scalar), "sram": self._place(memory, chip)}
        for tensor, base in zip(sort.tensors, columns.bases, strict=True):
            places[tensor.name] = self._place(tensor.memory, read(base))
        moved = build_loops(sort.meaning.typed, places, scalars, self._tables)
        if padded:
            inside = functools.reduce(tirx.And, (row >= 0, row < shape["rows"], column >= 0, column < shape["columns"]))
            moved = tirx.IfThenElse(inside, moved, self._zeros(memory, chip))
        extents = [shape[f"extents.{number}"] for number in range(len(outer))]
        return _loops([*outer, y, x], [*extents, shape["height"], shape["width"]], moved)

    def _place(self, memory: int, element: Int) -> Place:
        return Place(self._memories[memory], element * self._elements[memory])

    def _zeros(self, memory: int, element: Int) -> tirx.Stmt:
        buffer, scalar = self._memories[memory], tirx.Var("scalar", "int64")
        index = element * self._elements[memory] + scalar
        store = tirx.BufferStore(buffer, tirx.const(0, buffer.dtype), [index])
        return tirx.For(scalar, _constant(0), _constant(self._elements[memory]), tirx.ForKind.SERIAL, store)


class _Read:
    """Reads columns of one row of the table, each once; ``statements`` are the reads."""

    def __init__(self, table: Any, row: Int) -> None:
        self._table, self._row = table, row
        self.statements: list[tirx.Stmt] = []

    def __call__(self, column: int) -> Int:
        """The number in a column."""
        variable = tirx.Var(f"column{column}", "int64")
        self.statements.append(tirx.Bind(variable, self._table[self._row, column]))
        return variable

    def scalar(self, column: int, dtype: str) -> Int:
        """The field in a column as a scalar of an expression: an integer of 32 bits, or a float32 by its bits."""
        variable = tirx.Var(f"scalar{column}", dtype)
        bits = tirx.Cast("int32", self._table[self._row, column])
        self.statements.append(tirx.Bind(variable, tirx.reinterpret(dtype, bits) if dtype == "float32" else bits))
        return variable


def _loops(variables: list[Any], extents: list[Int], body: tirx.Stmt) -> tirx.Stmt:
    for variable, extent in zip(reversed(variables), reversed(extents), strict=True):
        body = tirx.For(variable, _constant(0), extent, tirx.ForKind.SERIAL, body)
    return body


def _aligned(numbers: Array) -> Array:
    """A copy that a kernel can read."""
    found = aligned_zeros(numbers.nbytes).view(numbers.dtype)[: len(numbers)]
    found[:] = numbers
    return found


def _zeros(count: int, dtype: str) -> Array:
    """So many zeros that a kernel can read."""
    return aligned_zeros(count * np.dtype(dtype).itemsize).view(dtype)


class ExplicitMachine:
    """The on-chip memories, which keep their contents from launch to launch, and the compiled kernel.

    Making one may compile; only :meth:`run` executes compiled code, so a process that will fork may make them.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._launch = load_kernel(source_of(accelerator))
        self._dram_types = dram_types(accelerator)
        own = {
            memory.name: _zeros(memory.depth * memory.element_count, held_as(memory.dtype))
            for memory in accelerator.memories
            if memory.view_of is None
        }
        self._memories = [own[memory.holder].view(held_as(memory.dtype)) for memory in accelerator.memories]

        self._tables = [_aligned(table.lookup().numbers) for table in accelerator.tables]

    def contents(self, name: str) -> Array:
        """A copy of the memory called ``name``, (depth, *shape of an element)."""
        names = [memory.name for memory in self.accelerator.memories]
        memory = self.accelerator.memory(name)
        scalars = self._memories[names.index(name)][: memory.depth * memory.element_count]
        return scalars.reshape(memory.depth, *memory.shape).copy()

    def run(self, decoded: Decoded, dram: Bytes) -> None:
        """Run a launch, reading and writing ``dram`` (bytes,), which :func:`aligned_zeros` made.

        Raises:
            SimulationError: see :func:`check_bounds`; nothing has run then.
        """
        check_bounds(decoded, len(dram))
        if not len(decoded):
            return
        drams = [dram.view(dtype) for dtype in self._dram_types]
        self._launch(launch_table(decoded), *drams, *self._memories, *self._tables)
