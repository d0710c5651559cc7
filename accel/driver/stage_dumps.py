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
from accel.report.documents.dump_documents import PASSES_FILE, DumpedPass, DumpedStage, DumpIndex
from accel.util.whole_files import write_whole

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
    borders = program.image.keys() - program.constants - set(program.inputs)
    lines = [f"# {len(program.words)} instructions, {program.dram_bytes} bytes of DRAM", "", "# address  bytes  tensor"]
    for segment in program.segments.values():
        kind = "within a border" if segment.name in borders else "constant" if segment.name in program.image else ""
        shape = f"{segment.dtype}{list(segment.shape)}"
        lines.append(f"{segment.address:#010x} {segment.nbytes:>9}  {segment.name}: {shape} {kind}".rstrip())
    lines += ["", "# steps"]
    for step in program.steps:
        inputs, outputs = ", ".join(step.inputs), ", ".join(step.outputs)
        if isinstance(step, Launch):
            where = f"instructions {step.begin} to {step.begin + step.count - 1}"
            how = "joined launch" if step.joined else "launch"
            lines.append(f"{how} {step.name} ({step.op}), {where}: {inputs} -> {outputs}")
        else:
            lines.append(f"host {step.name}: {inputs} -> {outputs}")
    return "\n".join(lines) + "\n"


_UNNAMED = re.compile(r"[^A-Za-z0-9_.]+")


class Dumps:
    """Writes ``NN-<stage>.txt`` and ``NN-<stage>/MM-<pass>.txt`` into a directory, and ``passes.json``, their index."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._index = DumpIndex(stages=[])
        shutil.rmtree(directory, ignore_errors=True)  # an earlier run may have had other stages
        directory.mkdir(parents=True)

    def stage(self, name: str, text: str, passes: Sequence[tuple[str, str | None]] = ()) -> None:
        """Write one stage's text, and beneath it those of its passes that changed something: (pass, text), in order."""
        stem = f"{len(self._index.stages):02d}-{name}"
        write_whole(self._directory / f"{stem}.txt", text)
        dumped: list[DumpedPass] = []
        changed = 0
        for pass_name, pass_text in passes:
            file = None
            if pass_text is not None:
                file = f"{stem}/{changed:02d}-{_UNNAMED.sub('_', pass_name)}.txt"
                changed += 1
                (self._directory / stem).mkdir(exist_ok=True)
                write_whole(self._directory / file, pass_text)
            dumped.append(DumpedPass(name=pass_name, file=file))
        self._index.stages.append(DumpedStage(name=name, file=f"{stem}.txt", passes=dumped))
        write_whole(self._directory / PASSES_FILE, self._index.model_dump_json() + "\n")


@pass_instrument
class PassTexts:
    """A TVM pass instrument that keeps the module's text after each pass, None of one that changed nothing."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str | None]] = []
        self._before: list[Any] = []

    def run_before_pass(self, module: Any, _info: Any) -> None:
        """TVM calls this; passes nest, so it is a stack."""
        self._before.append(module)

    def run_after_pass(self, module: Any, info: Any) -> None:
        """TVM calls this. A pass that is a sequence of passes says nothing of its own."""
        before = self._before.pop()
        if str(info.name) != "sequential":
            self.texts.append((str(info.name), None if structural_equal(before, module) else module.script()))
