"""Program parts: raw files that another tool wrote, and a document that says what they are (docs/program-format.md)."""

from collections.abc import Callable
from pathlib import Path

from accel.program import Program


def load_parts(directory: Path) -> Program:
    """Read a directory with ``program.json`` and the files that it names.

    Raises:
        InvalidProgram: a part is missing, or not what the document says.
        InvalidAccelerator: the accelerator is unknown, or cannot work.
    """
    raise NotImplementedError(directory)


def assemble(document: bytes, part: Callable[[str], bytes]) -> Program:
    """The program of a ``program.json`` and of parts that are read by name, as from a zip or a form.

    Args:
        document: the bytes of ``program.json``.
        part: gives the bytes of the part of that name; KeyError if there is none.

    Raises:
        InvalidProgram: a part is missing, or not what the document says.
        InvalidAccelerator: the accelerator is unknown, or cannot work.
    """
    raise NotImplementedError(document, part)
