import os
from types import SimpleNamespace

import numpy as np
import pytest

from accel.isa.decode import decode
from accel.isa.kernel_library import load_kernel
from accel.isa.vta import happens_before
from accel.isa.vta.function import launch_kernel
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.isa.vta.timing import event_loop
from accel.isa.vta.timing.vta_timing import time_launch
from accel.isa.vta.vta_hazards import VtaHazardChecker
from accel.simulate import cycle_account
from accel.simulate.cycle_account import account_launch
from accel.simulate.prepare_simulation import prepare
from accel.util.arrays import aligned_zeros
from tests.helpers.programs.golden import board


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
    assert len(cycle_account._sweep.dispatcher.signatures) == 1
    assert (
        len(event_loop.run_clock.dispatcher.signatures) == len(happens_before.find_hazards.dispatcher.signatures) == 1
    )


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
