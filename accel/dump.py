"""Keep the text of the module after every stage, and after every TVM pass within a stage that changed it."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm.ir.instrument import pass_instrument
from tvm_ffi import structural_equal

_UNNAMED = re.compile(r"[^A-Za-z0-9_.]+")


class Dumps:
    """Writes ``NN-<stage>.txt`` and ``NN-<stage>/MM-<pass>.txt`` into a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0
        shutil.rmtree(directory, ignore_errors=True)  # an earlier run may have had other stages
        directory.mkdir(parents=True)

    def stage(self, name: str, text: str, passes: Sequence[tuple[str, str]] = ()) -> None:
        """Write one stage's text, and beneath it those of its passes: (pass, text), in order."""
        stem = f"{self._count:02d}-{name}"
        self._count += 1
        (self._directory / f"{stem}.txt").write_text(text, encoding="utf-8")
        for number, (pass_name, pass_text) in enumerate(passes):
            folder = self._directory / stem
            folder.mkdir(exist_ok=True)
            safe = _UNNAMED.sub("_", pass_name)
            (folder / f"{number:02d}-{safe}.txt").write_text(pass_text, encoding="utf-8")


@pass_instrument
class PassTexts:
    """A TVM pass instrument that keeps the module's text after each pass that changed it."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []
        self._before: list[Any] = []

    def run_before_pass(self, module: Any, _info: Any) -> None:
        """TVM calls this; passes nest, so it is a stack."""
        self._before.append(module)

    def run_after_pass(self, module: Any, info: Any) -> None:
        """TVM calls this. A pass that is a sequence of passes says nothing of its own."""
        before = self._before.pop()
        if str(info.name) != "sequential" and not structural_equal(before, module):
            self.texts.append((str(info.name), module.script()))
