"""What a program takes, gives and consists of."""

from accel.frontend.read.info import TensorInfo
from accel.program import HostStep, Program
from worker.uploads import ProgramContents


def describe(program: Program) -> ProgramContents:
    """What a program takes, gives and consists of."""
    host_steps = sum(isinstance(step, HostStep) for step in program.steps)
    return ProgramContents(
        accelerator=program.accelerator.name,
        instructions=len(program.words),
        launches=len(program.steps) - host_steps,
        host_steps=host_steps,
        dram_bytes=program.dram_bytes,
        inputs=tensors_of(program, program.inputs),
        outputs=tensors_of(program, program.outputs),
        expects=bool(program.expected),
    )


def tensors_of(program: Program, names: tuple[str, ...]) -> list[TensorInfo]:
    """Names, element types and shapes of some of its segments."""
    segments = [program.segments[name] for name in names]
    return [TensorInfo(name=segment.name, dtype=segment.dtype, shape=segment.shape) for segment in segments]
