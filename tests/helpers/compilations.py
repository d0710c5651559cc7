"""What a process compiles: kernels by LLVM or TVM, regions by the stages, and nests that are matched with layers."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import tirx

from accel.isa.native import machine_code
from accel.lowering import pipeline
from accel.lowering.codegen import region_cache
from accel.lowering.ir.function_attributes import REGION, region_functions
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
        monkeypatch.setattr(region_cache.RegionCache, "keep", self._noted(region_cache.RegionCache.keep))

    def _counted(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            lines = [kind]
            if kind == "region":
                lines = [f"region {_digest(function)}" for function in region_functions(arguments[0]).values()]
            self._note(lines)
            return function(*arguments, **named)

        return counted

    def _noted(self, keep: Callable[[region_cache.RegionCache], None]) -> Callable[[region_cache.RegionCache], None]:
        def noted(regions: region_cache.RegionCache) -> None:
            self._note(f"taken {_digest(function)}" for function in regions._functions.values())
            keep(regions)

        return noted

    def _note(self, lines: Iterable[str]) -> None:
        with self._path.open("a") as file:
            os.write(file.fileno(), "".join(f"{line}\n" for line in lines).encode())

    def taken(self) -> Counter[str]:
        """Returns what was compiled since it was asked last, and how often; and the regions that programs have."""
        found = Counter(self._path.read_text().splitlines())
        self._path.write_text("")
        return found


def _digest(function: tirx.PrimFunc) -> str:
    return hashlib.sha256(str(function.attrs[REGION]).encode()).hexdigest()
