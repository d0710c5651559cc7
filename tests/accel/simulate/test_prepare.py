import os
import time

import numpy as np

from accel.isa.arrays import aligned_zeros
from accel.isa.decode import decode
from accel.isa.vta import function_kernel, races_kernel, timing_kernel
from accel.isa.vta.function import Machine
from accel.isa.vta.geometry import Geometry
from accel.isa.vta.races import HazardChecker
from accel.isa.vta.timing import time_launch
from accel.simulate.prepare import prepare
from tests.accel.golden import board


def test_after_preparing_nothing_is_compiled_any_more():
    accelerator = board()
    prepare(accelerator)
    kernel = function_kernel.build(Geometry.of(accelerator))
    begin = time.monotonic()
    machine = Machine(accelerator)
    assert machine._launch is kernel
    machine.run(decode(accelerator, np.array([[3, 0]], np.uint64)), aligned_zeros(64))
    assert time_launch(decode(accelerator, np.array([[3, 0]], np.uint64)), {}).cycles == 25
    assert time.monotonic() - begin < 0.5
    assert function_kernel.build(Geometry.of(accelerator)) is kernel
    HazardChecker(accelerator, {}, 64).check(decode(accelerator, np.array([[3, 0]], np.uint64)), aligned_zeros(64))
    assert len(timing_kernel.run.dispatcher.signatures) == len(races_kernel.find.dispatcher.signatures) == 1


def test_a_forked_child_simulates_what_its_parent_prepared():
    accelerator = board()
    prepare(accelerator)
    child = os.fork()
    if child == 0:
        timing = time_launch(decode(accelerator, np.array([[3, 0]], np.uint64)), {})
        os._exit(0 if timing.cycles == 25 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
