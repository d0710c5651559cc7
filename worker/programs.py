"""What a program takes, gives and consists of."""

from accel.frontend.inspect import TensorInfo
from accel.program import HostStep, Program
from worker.uploads import ProgramInfo


def describe(program: Program, digest: str, size: int) -> ProgramInfo:
    """The document of a program whose file has this SHA-256 and size in bytes."""
    host_steps = sum(isinstance(step, HostStep) for step in program.steps)
    return ProgramInfo(
        id=digest,
        bytes=size,
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
