"""What a trace costs, warm, in one thread: made, stored, paged, and given out in each form.

The stream is the recordings' largest, 401,419 instructions of a convolution in single pixels; without the recordings,
a random launch of the same size. Beside CSV and text stands a formatter that takes one row after the other, in the same
run. Cold is an opened file none of whose bytes were read before; the store's requests take 5 ms each in a second
measurement, and the pages are of 100 rows.
"""

import io
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timing import launches, least

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.isa.decode import decode
from accel.program.program_model import InstructionOrigin, Launch, Program
from accel.simulate.engine import simulate
from accel.trace.byte_ranges import Ranges
from accel.trace.perfetto.trace_window import TraceWindow
from accel.trace.program_trace import Trace
from accel.trace.trace_builder import make_trace

_AWAY = 0.005  # seconds of a request to a store


def stream() -> tuple[str, Program]:
    """Where the stream comes from, and a program of it alone."""
    source, words, tokens, _ = launches()
    launch = Launch("conv", "conv2d", ("conv",), 0, len(words), 0, (), ())
    program = Program(
        accelerator=load_accelerator("vta"),
        segments={},
        image={},
        inputs=(),
        outputs=(),
        steps=(launch,),
        words=words,
        origin=(words[:, 0] & 1).astype("int32"),
        origins=tuple(
            InstructionOrigin(("conv", "clip"), "conv2d_0", site, "pragma_gemm", "inject") for site in range(2)
        ),
        dram_bytes=1 << 26,
        initial_tokens=tokens,
    )
    return source, program


def away(path: Path) -> Trace:
    """The trace in a store that takes its time."""
    local = Ranges.of_file(path)

    def read(begin: int, end: int) -> bytes:
        time.sleep(_AWAY)
        return local.read(begin, end)

    return Trace.open(Ranges(read, local.size))


def plain_csv(trace: Trace) -> Iterator[str]:
    """Row after row."""
    names = trace.names
    columns = {name: column.tolist() for name, column in trace.rows(0, len(trace)).columns.items()}
    has = [set(operation.fields) for operation in names.operations]
    origins = [f"{' '.join(o.nodes)},{o.function},{o.site},{o.pragma},{o.stage}" for o in names.origins] + [",,,,"]
    fields = [(name, columns[f"field/{name}"]) for name in names.fields]
    waits = [columns[f"wait/{cause}"] for cause in names.causes]
    for row, kind in enumerate(columns["kind"]):
        operation = names.operations[kind]
        cells = [row, names.launches[columns["launch"][row]].name, operation.unit, operation.name]
        cells += [columns["start"][row], columns["end"][row]]
        cells += [values[row] if name in has[kind] else "" for name, values in fields]
        cells += [values[row] for values in waits]
        yield ",".join(map(str, cells)) + f",{origins[columns['origin'][row]]}\n"


def plain_text(trace: Trace) -> Iterator[str]:
    """Row after row."""
    names = trace.names
    columns = {name: column.tolist() for name, column in trace.rows(0, len(trace)).columns.items()}
    origins = [f"; {o.function}#{o.site} {o.pragma} {o.stage} {' '.join(o.nodes)}" for o in names.origins] + [""]
    fields = [[(name, columns[f"field/{name}"]) for name in operation.fields] for operation in names.operations]
    waits = [(cause, columns[f"wait/{cause}"]) for cause in names.causes]
    for row, kind in enumerate(columns["kind"]):
        operation = names.operations[kind]
        launch = names.launches[columns["launch"][row]].name
        words = [f"{row} {launch} {operation.unit} {operation.name} {columns['start'][row]} {columns['end'][row]}"]
        words += [f"{name}={values[row]}" for name, values in fields[kind]]
        words += [f"wait:{cause}={values[row]}" for cause, values in waits if values[row]]
        yield f"{' '.join(words)}  {origins[columns['origin'][row]]}".rstrip() + "\n"


def drain(pieces: Iterator[bytes]) -> int:
    return sum(map(len, pieces))


def line(name: str, seconds: float, note: str = "") -> None:
    print(f"{name:44} {1000 * seconds:9.1f}   {note}".rstrip())


def job(program: Program, out: Path) -> None:
    run_program(program, SimulateOptions(engine="timing"), out)


def forms(trace: Trace) -> None:
    """CSV and text beside the plain formatter, then Perfetto."""
    for name, pieces, plain in (("csv", trace.csv, plain_csv), ("text", trace.text, plain_text)):
        fast, slow = least(lambda: drain(pieces())), least(lambda: io.StringIO().writelines(plain(trace)))  # noqa: B023
        line(name, fast, f"{drain(pieces()) / 1e6:.1f} MB; row after row {1000 * slow:.0f} ms, {slow / fast:.1f} times")
    for window in (TraceWindow(), TraceWindow(events=500_000), TraceWindow(begin=1_000_000, end=1_010_000)):
        seconds, bytes_, found = perfetto(trace, window)
        about = found["otherData"]
        merged = ", merged" if about["merged"] else ""
        shown = f"{len(found['traceEvents']):,} events of {about['instructions']:,} instructions{merged}"
        cycles = f"cycles {window.begin:,} on" if window.begin else f"at most {window.events:,} events"
        line(f"perfetto, {cycles}", seconds, f"{bytes_ / 1e6:.1f} MB, {shown}")


def perfetto(trace: Trace, window: TraceWindow) -> tuple[float, int, dict[str, Any]]:
    """Seconds, bytes, and the document."""
    document = b"".join(trace.perfetto(window))
    return least(lambda: drain(trace.perfetto(window))), len(document), json.loads(document)


def main() -> None:
    source, program = stream()
    simulation = simulate(program, {}, function=False)
    print(f"{f'{len(program.words):,} instructions, {source}':44} {'ms':>9}")
    line("decode", least(lambda: decode(program.accelerator, program.words).columns))
    line("decode and time", least(lambda: simulate(program, {}, function=False)))
    line("make the trace", least(lambda: make_trace(program, simulation)))
    made = make_trace(program, simulation)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        line("save it", least(lambda: made.save(directory)), f"{(directory / 'trace.npz').stat().st_size / 1e6:.1f} MB")
        middle, path = len(made) // 2, directory / "trace.npz"
        line("a cold page", least(lambda: Trace.load(directory).page(middle, 100)))
        line("a cold page, 5 ms a request", least(lambda: away(path).page(middle, 100)))
        trace = Trace.load(directory)
        line("a page of an open trace", least(lambda: trace.page(middle, 100)))
        forms(trace)
        whole = least(lambda: job(program, directory))
        line("the whole job: timing, report, trace", whole, f"within 2 s: {'yes' if whole < 2 else 'no'}")


if __name__ == "__main__":
    main()
