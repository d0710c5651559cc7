from dataclasses import replace

import numpy as np
import pytest

from accel.errors import InvalidTensors, SimulationError
from accel.host.host_executor import HostFunctions
from accel.host.host_graph_reader import read_host_graph
from accel.program.program_model import HostStep, Launch
from accel.simulate import engine
from accel.simulate.engine import simulate
from tests.helpers.programs.golden import documents, needs_golden, words
from tests.helpers.programs.streams import host_module, small_program

X = np.arange(-32, 32, dtype=np.int8).reshape(4, 16)


def test_launches_and_host_steps_share_one_dram_and_on_chip_memories():
    simulation = simulate(small_program(), {"x": X})
    assert np.array_equal(simulation.outputs["y"], X.astype(np.float32) + 2)
    assert [result.launch.name for result in simulation.launches] == ["first", "second"]


def test_the_clock_runs_on_from_launch_to_launch():
    first, second = simulate(small_program(), {"x": X}).launches
    assert (first.first_cycle, second.first_cycle) == (0, first.timing.cycles)
    # 5 + 16 + 2 x 6 to fetch; micro-op 23, acc 7 + 16 + 32, alu 11, store 1 + 3 + 12, token 2, finish 2
    assert first.timing.cycles == 33 + 23 + 55 + 11 + 16 + 2 + 2
    assert second.timing.cycles == 29 + 11 + 16 + 2 + 2


def test_either_engine_runs_alone():
    program = small_program()
    timing, function = simulate(program, {}, function=False), simulate(program, {"x": X}, timing=False)
    both = simulate(program, {"x": X})
    assert timing.cycles == both.cycles > 0
    assert timing.outputs == {}
    assert function.cycles == 0
    assert np.array_equal(function.outputs["y"], both.outputs["y"])


@pytest.mark.parametrize(("few", "many"), [(0, 1 << 18), (0, 5), (0, 0)], ids=["beside", "one at a time", "after"])
def test_launches_that_are_timed_beside_take_what_they_take_alone(few, many, monkeypatch):
    """A launch that is timed before the one that it takes tokens from would deadlock, or take fewer cycles."""
    program = replace(small_program(), initial_tokens={"store_to_compute": 2})
    alone = simulate(program, {"x": X}, function=False)
    monkeypatch.setattr(engine, "_FEW", few)
    monkeypatch.setattr(engine, "MANY", many)
    beside = simulate(program, {"x": X})
    assert [launch.first_cycle for launch in beside.launches] == [launch.first_cycle for launch in alone.launches]
    assert (beside.cycles, beside.tokens) == (alone.cycles, alone.tokens)


def test_of_two_errors_the_one_of_the_earlier_launch_is_said(monkeypatch):
    """The first launch never ends; the second one's error is found before that is known."""
    monkeypatch.setattr(engine, "_FEW", 0)
    program = small_program()
    first = program.steps[1]
    program.words[first.begin + first.count - 1, 0] |= 1 << 3  # waits for a token of the load unit
    program.words[7, 0] |= 1 << 24  # the store's sram_base
    with pytest.raises(SimulationError, match="launch first: deadlock"):
        simulate(program, {"x": X})


def test_progress_counts_steps():
    seen = []
    simulate(small_program(), {"x": X}, progress=lambda step, total: seen.append((step, total)))
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4)]


def test_tokens_left_over_reach_the_next_launch():
    program = small_program()
    assert set(simulate(program, {}, function=False).tokens.values()) == {0}
    left = simulate(replace(program, initial_tokens={"store_to_compute": 2}), {}, function=False)
    assert left.tokens["store_to_compute"] == 2


@needs_golden
def test_a_golden_stream_runs_as_a_program():
    stream = words("streams.npz")["resnet18_C2"]
    launch = Launch("C2", "conv2d", (), 0, len(stream), 0, (), ())
    bare = {"segments": {}, "image": {}, "inputs": (), "outputs": ()}
    program = replace(small_program(), steps=(launch,), words=stream, **bare)
    simulation = simulate(program, {}, function=False)
    assert simulation.cycles == documents("streams.json")["resnet18_C2"]["rtl_cycles"]


@pytest.mark.parametrize(
    ("inputs", "message", "field"),
    [
        ({}, "the inputs are x; got none", "inputs"),
        ({"x": X, "z": X}, "there is no input z; the inputs are x", "inputs.z"),
        ({"x": X.astype(np.int16)}, r"x is int8\[4, 16\]; got int16\[4, 16\]", "inputs.x"),
        ({"x": X[:2]}, r"x is int8\[4, 16\]; got int8\[2, 16\]", "inputs.x"),
    ],
)
def test_wrong_inputs_are_refused(inputs, message, field):
    with pytest.raises(InvalidTensors, match=message) as caught:
        simulate(small_program(), inputs)
    assert caught.value.field == field


def test_errors_name_the_launch():
    program = small_program()
    program.words[7, 0] |= 1 << 24  # the store's sram_base
    with pytest.raises(
        SimulationError, match=r"launch second: instruction 7 \(store_out\): index .* of acc is out of range"
    ):
        simulate(program, {"x": X})
    program = small_program()
    program.words[9, 0] |= 1 << 3  # finish waits for a token of the load unit
    with pytest.raises(SimulationError, match="launch second: deadlock: compute waits at instruction 9"):
        simulate(program, {"x": X})


def test_a_launch_beyond_the_instructions_is_refused():
    program = small_program()
    steps = (replace(program.steps[1], count=99),)
    with pytest.raises(SimulationError, match="launch first covers instructions 0 to 99; the program has 10"):
        simulate(replace(program, steps=steps), {"x": X})


def test_a_segment_beyond_dram_is_refused():
    with pytest.raises(SimulationError, match="segment y ends at byte 2304; the DRAM has 2048"):
        simulate(replace(small_program(), dram_bytes=2048), {"x": X})


@pytest.mark.parametrize("text", ["", "{}", "not json", "[1, 2]"])
def test_a_host_module_that_is_none_is_refused(text):
    program = small_program()
    step = replace(program.steps[0], module=text)
    with pytest.raises(SimulationError, match="a host step is no host graph"):
        simulate(replace(program, steps=(step,)), {"x": X})


def test_a_host_step_that_returns_something_else_is_refused():
    program = small_program()
    step = HostStep("bad", host_module((4, 16), "int8", lambda x: x + x), (), ("x",), ("y",))
    with pytest.raises(SimulationError, match=r"host step bad returned int8\[4, 16\] for y, which is float32\[4, 16\]"):
        simulate(replace(program, steps=(step,)), {"x": X})


def test_identical_host_modules_are_read_once(monkeypatch):
    read = []

    def read_once(text):
        read.append(text)
        return read_host_graph(text)

    monkeypatch.setattr("accel.host.host_executor.read_host_graph", read_once)
    functions, text = HostFunctions(), host_module((4,), "float32", lambda x: x + x)
    functions.prepare(text)
    assert np.array_equal(functions.run(text, [np.arange(4, dtype=np.float32)])[0], [0, 2, 4, 6])
    assert len(read) == 1


def test_an_input_that_the_program_carries_may_be_left_out_or_replaced():
    program = small_program()
    carried = replace(program, image=program.image | {"x": X})
    assert np.array_equal(simulate(carried, {}).outputs["y"], X.astype(np.float32) + 2)
    assert np.array_equal(simulate(carried, {"x": X // 2}).outputs["y"], (X // 2).astype(np.float32) + 2)


def test_a_launch_that_would_run_for_hours_is_refused():
    program = small_program()
    program.words[6, 0] |= np.uint64(0xFFFFFFF << 35)  # 16,383 x 16,383 passes
    program.words[6, 1] &= ~np.uint64((1 << 44) - 1)  # that all stay where they are
    program.words[2:6] = program.words[6]
    program.words[2, 0] &= ~np.uint64(0x1FFF << 8)
    for row in (2, 3, 4, 5):
        program.words[row, 0] |= np.uint64(0x1FF << 21)
    with pytest.raises(
        SimulationError, match=r"launch first: instruction 2 \(alu\): it takes the program to"
    ) as caught:
        simulate(program, {"x": X})
    assert caught.value.kind == "work-limit"


def test_the_work_of_all_launches_counts(monkeypatch):
    monkeypatch.setattr("accel.simulate.machine_state.WORK_LIMIT", 30)
    program = small_program()  # 13 micro-ops and elements in the first launch, 4 + 4 in the second
    thrice = replace(program, steps=(*program.steps[:3], *[program.steps[2]] * 2, program.steps[3]))
    with pytest.raises(SimulationError, match=r"launch second: instruction 6 \(alu\): it takes the program to 33 "):
        simulate(thrice, {"x": X})
    twice = replace(program, steps=(*program.steps[:3], *program.steps[2:]))
    assert simulate(twice, {"x": X}, timing=False).outputs["y"].shape == X.shape


def test_an_accelerator_may_clear_its_tokens_between_launches():
    program = replace(small_program(), initial_tokens={"store_to_compute": 2})
    sync = program.accelerator.synchronisation.model_copy(update={"carry": False})
    forgetful = program.accelerator.model_copy(update={"synchronisation": sync})
    tokens = simulate(replace(program, accelerator=forgetful), {}, function=False).tokens
    assert tokens == {} or not any(tokens.values())
