"""Opening of a program in any of its forms."""

from pathlib import Path

from accel.errors import InvalidProgram
from accel.program.program_document import MOST_DOCUMENT_BYTES, parse_document
from accel.program.program_model import Program
from accel.program_files.bounded_zip import ZipParts, open_zip
from accel.program_files.program_container import load_program, read_program
from accel.program_files.program_parts import assemble, load_parts

_DOCUMENT = "program.json"


def open_program(path: Path) -> Program:
    """Reads a directory of parts, a zip of parts, or a Program file; the contents tell which form it is.

    Args:
        path: a directory or a file.

    Raises:
        InvalidProgram: it has none of these forms, or contradicts itself.
        InvalidAccelerator: the accelerator is unknown, or cannot work.
    """
    try:
        if path.is_dir():
            return load_parts(path)
        if not path.is_file():
            raise InvalidProgram(f"{path} is neither a file nor a directory", field="program")
        return _open_file(path)
    except OSError as error:
        raise InvalidProgram(f"{str(path)[:256]} cannot be read: {error.strerror}", field="program") from error


def _open_file(path: Path) -> Program:
    with open_zip(path) as parts:
        folder = _folder(parts)
        inside = parts.within(folder)
        document = inside.read(_DOCUMENT, MOST_DOCUMENT_BYTES)
        parsed = parse_document(document)
        if "version" not in parsed:  # which parts do not have, and a Program file must
            return assemble(document, inside.read)
        if not folder:
            return read_program(parts, parsed)
    return load_program(path)  # which says what it misses at the top of the zip


def _folder(parts: ZipParts) -> str:
    """The folder that the parts are in, with its slash: often a directory was packed, not the files in it."""
    found = [name.removesuffix(_DOCUMENT) for name in parts.names() if f"/{name}".endswith(f"/{_DOCUMENT}")]
    if "" in found or not found:
        return ""
    if len(found) > 1:
        raise InvalidProgram(f"the zip has a {_DOCUMENT} in {found[0]} and one in {found[1]}", field=_DOCUMENT)
    return found[0]
