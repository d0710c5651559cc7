"""Texts of a job's stages: the module after each stage and each TVM pass, the quantised model, the program."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tvm.ir.instrument import pass_instrument
from tvm_ffi import structural_equal

from accel.program.program_model import Launch, Program

_SHOWN_ELEMENTS = 64  # of a constant, in the text of a model


def describe_model(model: onnx.ModelProto) -> str:
    """The model as ONNX text, its large constants left out."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    large = [tensor for tensor in shown.graph.initializer if np.prod(tensor.dims, dtype=np.int64) > _SHOWN_ELEMENTS]
    for tensor in large:
        shown.graph.initializer.remove(tensor)
    return str(onnx.printer.to_text(shown))


def describe_program(program: Program) -> str:
    """The program as text: where each tensor lies in DRAM, and its steps."""
    lines = [f"# {len(program.words)} instructions, {program.dram_bytes} bytes of DRAM", "", "# address  bytes  tensor"]
    for segment in program.segments.values():
        kind = "constant" if segment.name in program.image else ""
        shape = f"{segment.dtype}{list(segment.shape)}"
        lines.append(f"{segment.address:#010x} {segment.nbytes:>9}  {segment.name}: {shape} {kind}".rstrip())
    lines += ["", "# steps"]
    for step in program.steps:
        inputs, outputs = ", ".join(step.inputs), ", ".join(step.outputs)
        if isinstance(step, Launch):
            where = f"instructions {step.begin} to {step.begin + step.count - 1}"
            lines.append(f"launch {step.name} ({step.op}), {where}: {inputs} -> {outputs}")
        else:
            lines.append(f"host {step.name}: {inputs} -> {outputs}")
    return "\n".join(lines) + "\n"


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
