"""What a process compiles: kernels by LLVM or TVM, regions by the stages, and nests that are matched with layers."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm

from accel.isa.native import machine_code
from accel.lowering import pipeline
from accel.lowering.codegen import region_cache
from accel.lowering.ir.function_attributes import region_functions
from accel.lowering.kinds.layers import layer_tilings


class Compilations:
    """Counts compilations of this process, and of those forked from it, in a file.

    Args:
        monkeypatch: undoes what counts.
        path: of the file.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self._path = path
        path.touch()
        for module, name, kind in (
            (machine_code, "object_code", "kernel by LLVM"),
            (tvm, "compile", "kernel by TVM"),
            (region_cache, "run_stage", "region"),
            (pipeline, "run_stage", "region"),
            (layer_tilings, "_matched", "nest"),
        ):
            monkeypatch.setattr(module, name, self._counted(getattr(module, name), kind))

    def _counted(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            count = len(list(region_functions(arguments[0]))) if kind == "region" else 1
            with self._path.open("a") as file:
                os.write(file.fileno(), f"{kind}\n".encode() * count)
            return function(*arguments, **named)

        return counted

    def taken(self) -> Counter[str]:
        """Returns how much of each kind was compiled since it was asked last."""
        found = Counter(self._path.read_text().splitlines())
        self._path.write_text("")
        return found
