"""Run mutated programs, count what comes of them, and compare some with the plain reference.

``python -m tests.fuzz.campaign COUNT SEED STATE`` prints the counts as JSON; the file STATE always holds the case at
hand, so that whoever started this process knows which one killed it.
"""

import collections
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import accel.isa.vta.function.functional_table
import accel.isa.vta.function.launch_table
import accel.isa.vta.function.vta_machine
import accel.simulate.machine_state
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import SimulationError
from accel.program.program_model import Launch, Program, Segment
from accel.report.simulation_report import warnings_of
from accel.simulate.engine import Simulation, simulate
from examples.single import Conv, Dense, conv_model, dense_model
from tests.fuzz.guarded import guarded_zeros
from tests.fuzz.mutations import mutate
from tests.helpers.models.build_models import build
from tests.helpers.programs.golden import FOLDER
from tests.helpers.programs.program_parts import joined
from tests.reference.vta import ReferenceVta

_WORK = 1 << 18  # micro-ops of a launch; instead of minutes
_COMPARED = 100  # one in so many of the programs that ran is compared with the reference


def main(count: int, seed: int, state: Path) -> None:
    accel.simulate.machine_state.WORK_LIMIT = _WORK
    accel.simulate.machine_state.aligned_zeros = guarded_zeros
    accel.isa.vta.function.vta_machine.aligned_zeros = guarded_zeros
    accel.isa.vta.function.functional_table.aligned_zeros = guarded_zeros
    accel.isa.vta.function.launch_table.aligned_zeros = guarded_zeros
    programs = base_programs()
    told: collections.Counter[str] = collections.Counter()
    slowest = 0.0
    one(programs[0], np.random.default_rng(seed), collections.Counter())  # compiles the kernels
    for case in range(count):
        state.write_text(f"seed {seed} case {case}")
        begin = time.process_time()
        random = np.random.default_rng([seed, case])
        one(programs[random.integers(len(programs))], random, told)
        slowest = max(slowest, time.process_time() - begin)
    json.dump({"cases": count, "slowest": slowest, "told": told}, sys.stdout)


def one(base: Program, random: np.random.Generator, told: collections.Counter[str]) -> None:
    """One case; anything raised but a diagnosis ends the campaign."""
    ran = 0
    try:
        program = mutate(base, random)
        simulation = simulate(program, {})
        ran = len(program.words)
    except SimulationError as error:
        told[error.kind] += 1
        if error.kind == "microop-range":  # found where it runs, after those before it
            ran = error.instruction or 0
    else:
        told["fine"] += not (simulation.hazards.races or simulation.hazards.unwritten)
        told["race"] += bool(simulation.hazards.races)
        told.update({warning.kind for warning in warnings_of(program, simulation)})
        if random.integers(_COMPARED) == 0:
            told["compared"] += 1
            assert np.array_equal(simulation.dram, by_reference(program, simulation))
    told["ten instructions"] += ran >= 10


def by_reference(program: Program, simulation: Simulation) -> np.ndarray:
    dram = np.zeros(len(simulation.dram), np.uint8)
    for name, array in program.image.items():
        segment = program.segments[name]
        dram[segment.address : segment.address + segment.nbytes] = array.reshape(-1).view(np.uint8)
    machine = ReferenceVta(program.accelerator, dram)
    for result in simulation.launches:
        for row, kind in enumerate(result.decoded.kind):
            fields = {name: int(column[row]) for name, column in result.decoded.columns.items()}
            machine.run(program.accelerator.instructions[kind].name, fields)
    return dram


def base_programs() -> list[Program]:
    """Golden runs of more than ten instructions, where there are any, and programs of our own compiler."""
    vta = load_accelerator("vta")
    compiled = [
        build(conv_model(Conv(16, 32, 8, 6, (3, 3), (1, 1), (1, 1, 1, 1), relu=True)), vta),
        build(conv_model(Conv(32, 16, 9, 9, (1, 1), (2, 2), (0, 0, 0, 0), relu=False)), vta),
        build(dense_model(Dense(3, 48, 40, bias=True)), vta),
    ]
    programs = [launches_only(program) for program in compiled]
    if FOLDER.is_dir():
        names = sorted(path.stem for path in (FOLDER / "runs").glob("conv*.npz"))
        programs += [of_run(name) for name in [*names, "test_gemm_r0", "test_gemm_r1"]]
    return [program for program in programs if len(program.words) >= 12]


def launches_only(program: Program) -> Program:
    steps = tuple(step for step in program.steps if isinstance(step, Launch))
    random = np.random.default_rng(0)
    image = {
        name: random.integers(-128, 128, segment.shape).astype(segment.dtype)
        for name, segment in program.segments.items()
        if name not in program.image
    }
    return replace(program, steps=steps, inputs=(), outputs=(), image=program.image | image)


def of_run(name: str) -> Program:
    """A golden run; DRAM is mapped as far as its pages go, and costs only what is touched."""
    run = np.load(FOLDER / "runs" / f"{name}.npz")
    size = int(run["page_bytes"])
    contents = joined(run["pre_idx"], run["pre_pages"], size)
    arrays = {f"s{address:x}": np.frombuffer(data, np.uint8) for address, data in contents.items()}
    segments = {f"s{a:x}": Segment(f"s{a:x}", a, (len(data),), "uint8") for a, data in contents.items()}
    words = run["insn"].view(np.uint64)
    launch = Launch(name, "golden", (), 0, len(words), 0, (), ())
    return Program(
        accelerator=load_accelerator("vta"), segments=segments, image=arrays, inputs=(), outputs=(), steps=(launch,),
        words=words, origin=np.full(len(words), -1, np.int32), origins=(), dram_bytes=1 << 27, granularity=4096,
    )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
