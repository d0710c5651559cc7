import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.family_registry import family_of
from accel.isa.gemmini.function import stream_machine
from accel.isa.gemmini.stream import bounds_kernel, launch_context, loop_expansion
from accel.isa.gemmini.timing import stream_traffic
from accel.isa.gemmini.timing.machine import machine
from accel.isa.kernels.kernel_library import load_kernel
from accel.isa.vta import happens_before
from accel.isa.vta.function import launch_kernel
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.isa.vta.timing import event_loop
from accel.isa.vta.timing.vta_timing import time_launch
from accel.isa.vta.vta_hazards import VtaHazardChecker
from accel.simulate import cycle_account, prepare_simulation
from accel.simulate.cycle_account import account_launch
from accel.simulate.prepare_simulation import prepare
from accel.util.arrays import aligned_zeros
from tests.helpers.programs.golden import board
from worker.process.children import start_child


def test_after_preparing_nothing_is_compiled_any_more():
    accelerator = board()
    prepare(accelerator)
    kernel = load_kernel(launch_kernel.source_of(Geometry.of(accelerator)))
    machine = VtaMachine(accelerator)
    assert machine._launch is kernel
    machine.run(decode(accelerator, np.array([[3, 0]], np.uint64)), aligned_zeros(64))
    assert time_launch(decode(accelerator, np.array([[3, 0]], np.uint64)), {}).cycles == 25
    assert load_kernel(launch_kernel.source_of(Geometry.of(accelerator))) is kernel
    VtaHazardChecker(accelerator, {}, 64).check(decode(accelerator, np.array([[3, 0]], np.uint64)), aligned_zeros(64))
    decoded = decode(accelerator, np.array([[3, 0]], np.uint64))
    account_launch(decoded, time_launch(decoded, {}))
    assert len(cycle_account._sweep.compiled_for) == 1
    assert len(event_loop.run_clock.compiled_for) == len(happens_before.find_hazards.compiled_for) == 1


def test_a_forked_child_simulates_what_its_parent_prepared():
    accelerator = board()
    prepare(accelerator)
    child = os.fork()
    if child == 0:
        timing = time_launch(decode(accelerator, np.array([[3, 0]], np.uint64)), {})
        os._exit(0 if timing.cycles == 25 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_family_that_was_written_before_kernels_were_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in: it compiles in the process, as it did."""
    prepared: list[str] = []
    older = SimpleNamespace(prepare=lambda accelerator: prepared.append(accelerator.name))
    monkeypatch.setattr("accel.simulate.prepare_simulation.family_of", lambda _: older)
    monkeypatch.setattr("accel.simulate.prepare_simulation._prepared", set())
    prepare(board())
    assert prepared == [board().name]


def test_a_process_that_waits_has_a_child_do_a_part(tmp_path: Path) -> None:
    def meet(own: str, other: str) -> None:
        (tmp_path / own).write_text(str(os.getpid()))
        begun = time.monotonic()
        while not (tmp_path / other).exists():
            assert time.monotonic() - begun < 20, "the parts are done one after the other"
            time.sleep(0.01)

    prepare_simulation._share([lambda: meet("a", "b"), lambda: meet("b", "a")], start_child)
    assert len({(tmp_path / name).read_text() for name in "ab"}) == 2


def test_without_a_process_to_be_had_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_: object) -> int:
        raise OSError(errno.EAGAIN, "no process")

    monkeypatch.setattr(prepare_simulation, "is_on_disk", lambda _, **_given: False)
    prepare_simulation.prepare_on_disk(board(), exhausted)
    assert len(happens_before.find_hazards.compiled_for) == 1


def test_preparing_compiles_all_that_gemmini_runs() -> None:
    accelerator = load_accelerator("gemmini")
    prepare(accelerator)
    words = np.zeros((0, 3), np.uint64)
    family, decoded, dram = family_of(accelerator), decode(accelerator, words), aligned_zeros(64)
    family.machine(accelerator).run(decoded, dram)
    family.time(decoded, {})
    family.boxes(decoded)
    family.next_context(decoded)
    family.check_launch(decoded, 64)
    checker = family.hazard_checker(accelerator, {}, 64)
    assert checker is not None
    checker.check(decoded, dram)
    for compiled in (
        loop_expansion._expand,
        stream_machine.run_primitives,
        machine.prepare,
        machine.run_machine,
        bounds_kernel.check_bounds,
        stream_traffic._boxes,
        launch_context._configure_all,
    ):
        assert len(compiled.compiled_for) == 1
