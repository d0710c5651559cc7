"""Opening a program in whatever form it comes."""

from pathlib import Path

from accel.program import Program


def open_program(path: Path, *, trust_host_code: bool = False) -> Program:
    """Read a directory of parts, a zip of parts, or a Program file, told apart by what they hold.

    Args:
        path: a directory or a file.
        trust_host_code: as :func:`accel.program_file.load_program` has it.

    Raises:
        InvalidProgram: none of these, or one that contradicts itself.
        InvalidAccelerator: the accelerator is unknown, or cannot work.
    """
    raise NotImplementedError(path, trust_host_code)
