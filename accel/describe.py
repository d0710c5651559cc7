"""Texts of what is not TIR: the quantised model, and the program."""

import numpy as np
import onnx

from accel.program import Launch, Program

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
