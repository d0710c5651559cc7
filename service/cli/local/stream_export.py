"""``cyclops export``: the streams of a program for a board or an RTL simulator."""

from pathlib import Path

from rich.console import Console

from accel.driver.exported_streams import ExportOptions, export_streams
from accel.errors import CyclopsError
from accel.program_files.open_program import open_program
from accel.verify.input_tensors import draw_inputs
from service.cli.local.local_run import print_error
from worker.config.settings import Settings
from worker.execution.job_execution import load_arrays

_MIB = 1 << 20


def export_local(
    path: Path,
    folder: Path,
    inputs: Path | None,
    seed: int,
    latencies: tuple[int, ...],
    base: str,
    settings: Settings,
) -> int:
    """Write the streams of the program at ``path`` to ``folder``; gives the exit code.

    Args:
        path: a Program file, or parts.
        folder: where they go.
        inputs: an npz file with arrays for some of the inputs; the others are the program's own, else random.
        seed: of what is random.
        latencies: of the memory; none: the document's.
        base: by how many bytes tensors lie further, as text.
        settings: which bound the npz file.
    """
    errors = Console(stderr=True)
    try:
        chosen = _base_of(base)
        program = open_program(path)
        given = load_arrays(inputs, settings, "inputs", lambda _headers: None) or {}
        missing = [program.segments[name] for name in program.inputs if name not in program.image and name not in given]
        told = tuple(dict.fromkeys(latencies)) or (program.accelerator.dram.read_latency,)
        options = ExportOptions(told, chosen)
        count = export_streams(program, draw_inputs(missing, seed) | given, options, folder)
    except OSError as error:
        unusable = CyclopsError(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}")
        return print_error(unusable, errors, as_json=False)
    except CyclopsError as error:
        return print_error(error, errors, as_json=False)
    Console().print(f"{count} streams in {folder}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _base_of(text: str) -> int:
    """Bytes as text, decimal or hexadecimal.

    Raises:
        CyclopsError: it is no positive multiple of 1 MiB.
    """
    try:
        base = int(text, 0)
    except ValueError:
        base = -1
    if base <= 0 or base % _MIB or base >= 1 << 44:
        raise CyclopsError(f"{text[:64]} is no address in multiples of 1 MiB, such as 0x80000000", field="base")
    return base
