"""``cyclops host``: the processor beside the accelerator."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from accel.accelerator.host_costs import HostCosts
    from accel.host.host_measurement import HostMeasurement

app = typer.Typer(name="host", no_args_is_help=True, help="The processor beside the accelerator: measure.")

_REFUSED = 2
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")  # kHz
_PROCESSORS = Path("/proc/cpuinfo")


@app.callback()
def host() -> None:
    """The processor beside the accelerator."""


@app.command()
def measure(
    into: Annotated[
        Path | None, typer.Option(help="A document to write the section into; else it goes to standard output.")
    ] = None,
    clock_mhz: Annotated[
        float | None, typer.Option(min=1.0, max=100_000.0, help="The clock that cycles are of; else the processor's.")
    ] = None,
) -> None:
    """Time operators of each class on this machine, as host steps run them, and write a document's `host` section.

    What a launch, its end and cache maintenance cost cannot be measured without the accelerator: of a document that
    has a host they are kept, in seconds, and else they are 0. Exit status: 0 done, 2 the document was refused.
    """
    from accel.catalog.host_section import host_yaml, with_host
    from accel.catalog.load_accelerator import parse_accelerator
    from accel.errors import CyclopsError
    from accel.host.host_measurement import measure_host
    from accel.util.whole_files import write_whole

    errors = Console(stderr=True)
    known: HostCosts | None = None
    try:
        document = None if into is None else into.read_bytes()
        if document is not None:
            known = parse_accelerator(document).host
        clock = clock_mhz or _clock()
        found = measure_host()
        section = measured_host(found, clock, _processor(), known)
        if document is None or into is None:
            sys.stdout.write(host_yaml(section))
        else:
            write_whole(into, with_host(document, section))
    except OSError as error:
        errors.print(f"cyclops: {into} cannot be used: {error.strerror}", markup=False, soft_wrap=True)
        raise typer.Exit(_REFUSED) from None
    except CyclopsError as error:
        errors.print(f"cyclops: {error.detail}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(_REFUSED) from None
    _print(found, clock, errors)


def measured_host(found: "HostMeasurement", clock_mhz: float, name: str, known: "HostCosts | None") -> "HostCosts":
    """Returns the section of a measurement; launches and caches are those of ``known``, as long as they are there."""
    from importlib import metadata
    from statistics import median

    from accel.accelerator.host_costs import HostCosts

    cycles = clock_mhz * 1e6  # a second
    versions = ", ".join(f"{library} {metadata.version(library)}" for library in ("numpy", "onnxruntime"))
    spread = median(each.spread for each in found.operators)
    off = median(max(1 + error, 1 / (1 + error)) for error in found.errors)
    kept = "" if known is None else f", which are those of {known.name}, as long in seconds"
    launches, scale = "not measured" + kept, 0.0 if known is None else clock_mhz / known.clock_mhz
    cache = None if known is None or known.cache is None else known.cache
    return HostCosts(
        name=name[:200],
        basis="measured",
        source=f"measured by cyclops host measure with {versions}, one thread: {len(found.operators)} operators, the "
        f"middle of their runs, whose quartiles are {spread:.0%} apart; half of the operators are within a factor of "
        f"{off:.2f} of their price; launches and caches are {launches}",
        clock_mhz=clock_mhz,
        bytes_per_cycle=_digits(1 / (found.seconds_per_byte * cycles)),
        elements_per_cycle=found.rates(clock_mhz),
        operator_cycles=_digits(found.begin_seconds * cycles),
        launch_cycles=0.0 if known is None else _digits(known.launch_cycles * scale),
        completion_cycles=0.0 if known is None else _digits(known.completion_cycles * scale),
        cache=None
        if cache is None
        else cache.model_copy(
            update={
                "call_cycles": _digits(cache.call_cycles * scale),
                "line_cycles": _digits(cache.line_cycles * scale),
            }
        ),
    )


def _digits(value: float) -> float:
    """Three of them."""
    return float(f"{value:.3g}")


def _clock() -> float:
    """MHz of this processor at most.

    Raises:
        InvalidAccelerator: the system does not say it.
    """
    from accel.errors import InvalidAccelerator

    if _FREQUENCY.is_file():
        return float(_FREQUENCY.read_text()) / 1000
    found = _of_processors("cpu MHz")
    if not found:
        raise InvalidAccelerator("this system does not say the processor's clock: give --clock-mhz", field="clock_mhz")
    return max(map(float, found))


def _processor() -> str:
    """What this processor calls itself, in characters that a document may have."""
    found = _of_processors("model name") or _of_processors("Hardware") or ["this machine"]
    return "".join(character for character in found[0] if character.isprintable()).strip() or "this machine"


def _of_processors(key: str) -> list[str]:
    lines = _PROCESSORS.read_text().splitlines() if _PROCESSORS.is_file() else []
    return [line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key]


def _print(found: "HostMeasurement", clock_mhz: float, console: Console) -> None:
    """Print each operator: what it took, how far its runs spread, and what the section prices it at."""
    table = Table("class", "operator")
    for heading in ("elements", "microseconds", "spread", "cycles each", "priced at"):
        table.add_column(heading, justify="right")
    for each, error in zip(found.operators, found.errors, strict=True):
        table.add_row(
            each.kind,
            each.work.op,
            f"{each.elements:,}",
            f"{each.seconds * 1e6:,.1f}",
            f"{each.spread:.0%}",
            f"{each.seconds * clock_mhz * 1e6 / each.elements:.3g}",
            f"{1 + error:.2f} x",
        )
    console.print(table)
