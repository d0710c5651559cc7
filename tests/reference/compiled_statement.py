"""One execution of a statement on arrays, compiled for this host."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import tirx
from tvm.target import codegen

from accel.expression.element_types import held_as
from accel.expression.loop_builder import Place, build_loops
from accel.expression.syntax_tree import ExpressionError
from accel.expression.typecheck import Typed


class Compiled:
    """A statement's machine code."""

    def __init__(self, typed: Typed, mcpu: str | None) -> None:
        self._typed = typed
        target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu or str(codegen.llvm_get_system_cpu())})
        with tvm.transform.PassContext(config={"tirx.disable_assert": True}):  # arguments are checked at each call
            self._run = tvm.compile(tvm.IRModule({"run": _function(typed)}), target=target)["run"]

    def __call__(
        self, tensors: Mapping[str, npt.NDArray[Any]], scalars: Mapping[str, float] | None = None
    ) -> npt.NDArray[Any]:
        """The target after one execution; ``tensors`` has what the target held before, and all are left as they are.

        Raises:
            ExpressionError: an array of another type or shape than the statement was checked for.
        """
        for name, expected in self._typed.tensors.items():
            found = tensors[name]
            if (str(found.dtype), found.shape) != (held_as(expected.dtype), expected.shape):
                raise ExpressionError(f"{name} is {found.dtype} {found.shape}; expected {expected}")
        arguments = {name: tvm.runtime.tensor(tensors[name].ravel()) for name in self._typed.tensors}
        fields = [
            tvm.runtime.tensor(np.array([(scalars or {})[name]], dtype)) for name, dtype in self._typed.scalars.items()
        ]
        tables = [tvm.runtime.tensor(table.numbers) for table in self._typed.tables.values()]
        self._run(*arguments.values(), *fields, *tables)
        target = self._typed.statement.target.name
        changed: npt.NDArray[Any] = arguments[target].numpy().reshape(self._typed.tensors[target].shape)
        return changed


def compile_statement(typed: Typed, mcpu: str | None = None) -> Compiled:
    """Compile ``typed`` for this host, or as for a processor ``mcpu``; it takes some tens of milliseconds."""
    return Compiled(typed, mcpu)


def _function(typed: Typed) -> tirx.PrimFunc:
    zero = tirx.const(0, "int32")
    places = {
        name: Place(tirx.decl_buffer((_elements(tensor.shape),), held_as(tensor.dtype), name), zero)
        for name, tensor in typed.tensors.items()
    }
    fields = {name: tirx.decl_buffer((1,), dtype, f"scalar_{name}") for name, dtype in typed.scalars.items()}
    scalars = {name: tirx.BufferLoad(buffer, [zero]) for name, buffer in fields.items()}
    tables = {
        name: tirx.decl_buffer((len(table.values),), str(table.numbers.dtype), f"table_{name}")
        for name, table in typed.tables.items()
    }
    buffers = [*(place.buffer for place in places.values()), *fields.values(), *tables.values()]
    function = tirx.PrimFunc(buffers, build_loops(typed, places, scalars, tables))
    return function.with_attr("global_symbol", "run")


def _elements(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))
