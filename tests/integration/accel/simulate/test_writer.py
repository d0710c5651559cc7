import numpy as np

from accel.simulate.engine import last_writer, simulate
from tests.helpers.programs.streams import small_program


def test_the_last_instruction_that_stored_a_byte_is_found():
    program = small_program()
    simulation = simulate(program, {"x": np.zeros((4, 16), np.int8)})
    assert [last_writer(program, simulation, address) for address in (511, 512, 575, 576)] == [None, 7, 7, None]
