"""Regions that a second process lowers, against the same ones lowered in one."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from tvm import ir

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.helpers.lowering_assistant import LoweringAssistant, lowering_assistant
from accel.driver.trials.region_timer import RegionTimer
from accel.errors import UnsupportedShape
from accel.lowering.codegen.region_cache import LoweredBeside, RegionCache
from accel.lowering.codegen.region_lowering import Lower
from accel.lowering.codegen.region_object import dump_object
from accel.lowering.ir.function_attributes import dump_region, region_functions, region_of
from accel.region.kinds import AnyRegion
from tests.helpers.models.build_models import lower, regions
from tests.integration.accel.lowering.codegen.test_region_objects import STAGES, VTA, Compiled, two_layers


@pytest.fixture(scope="module")
def assistant() -> Iterator[LoweringAssistant]:
    with lowering_assistant() as one:
        if one is None:
            pytest.skip("there is one processor, or no fork")
        yield one


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return Compiled(two_layers(), VTA, None)


@pytest.fixture(scope="module")
def layers() -> list[AnyRegion]:
    found = [region_of(function) for function in regions(lower(two_layers(), VTA, "pack"))]
    return [region for region in found if region is not None]


def test_a_program_is_the_same_where_another_process_lowers_half(
    assistant: LoweringAssistant, compiled: Compiled
) -> None:
    """The texts of all stages and passes too: an answer under another function's name would be in the wrong place."""
    beside = Compiled(two_layers(), VTA, None, assistant=assistant)
    assert beside.same(compiled)
    assert len(beside.cached) == 2
    assert not any(beside.cached.values())


def test_the_process_serves_one_accelerator_after_another(
    assistant: LoweringAssistant, layers: list[AnyRegion]
) -> None:
    """An answer for the accelerator of before would have that one's words."""
    other = load_accelerator("vta").model_copy(update={"name": "other"})
    for accelerator in (VTA, other, VTA):
        answer = assistant.lower(Target(accelerator), dump_region(layers[0]), placed=True).result()
        assert answer.entry is not None
        assert answer.placed is not None


def test_trials_beside_take_the_same_cycles(assistant: LoweringAssistant, layers: list[AnyRegion]) -> None:
    beside = RegionTimer(Target(VTA), assistant=assistant)
    assert beside.times(layers) == RegionTimer(Target(VTA)).times(layers)
    assert sorted(map(type, beside.lowered.values()), key=str) != []
    assert bytes in map(type, beside.lowered.values())  # one was lowered there


def test_a_trial_to_come_is_lowered_beside(assistant: LoweringAssistant, layers: list[AnyRegion]) -> None:
    """Catches trials that wait for one another while the other process has nothing to do, or count otherwise."""
    first, second = layers
    timer = RegionTimer(Target(VTA), assistant=assistant)
    cycles = [*timer.times([first], [second]), *timer.times([second])]
    assert cycles == RegionTimer(Target(VTA)).times(layers)
    assert isinstance(timer.lowered[dump_region(second)], bytes)  # lowered there


def test_what_is_too_large_is_not_lowered_beside(assistant: LoweringAssistant, layers: list[AnyRegion]) -> None:
    assert assistant.lower(Target(VTA), dump_region(layers[0]), 1).result() == LoweredBeside()


def test_many_large_regions_wait_for_one_another(layers: list[AnyRegion]) -> None:
    """More is sent both ways than the line holds: a job that waits to send must still receive."""
    entry = b"x" * (1 << 20)
    ours, theirs = socket.socketpair()
    assistant, count = LoweringAssistant(ours), 40

    def answer() -> None:
        with theirs.makefile("rb") as asked:
            for number in range(1 + count):
                asked.read(int.from_bytes(asked.read(8), "little"))
                if number:  # the first is the accelerator
                    theirs.sendall(_frames(entry, b""))

    with theirs:
        process = threading.Thread(target=answer)
        process.start()
        target, region = Target(VTA), dump_region(layers[0]) + " " * 50_000
        found = [assistant.lower(target, region) for _ in range(count)]
        assert all(each.result().entry == entry for each in found)
        process.join()
        assistant.close()


def _frames(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(8, "little") + frame for frame in frames)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        _frames(b"nothing", b""),
        _frames(*[b"nothing", b""] * 9),
        _frames((1 << 62).to_bytes(8, "little"), b""),
        _frames(b"x" * 100)[:50],
    ],
    ids=["nothing", "nonsense", "answers to nobody", "a length beyond the entry", "half an answer"],
)
def test_a_process_that_fails_changes_nothing(sent: bytes, compiled: Compiled) -> None:
    """The job lowers the region itself: nothing hangs, and nothing is lost."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        assistant = LoweringAssistant(ours)
        assert Compiled(two_layers(), VTA, None, assistant=assistant).same(compiled)
        assistant.close()


def test_why_a_region_cannot_be_lowered_is_said_by_the_job() -> None:
    """Where there is no answer the job lowers the region, and so finds the reason."""
    packed = lower(two_layers(), VTA, "pack")
    _, second = sorted(str(variable.name_hint) for variable in region_functions(packed))

    def refusing(name: str) -> Lower:
        def run(module: ir.IRModule, target: Target) -> ir.IRModule:
            if second in [str(variable.name_hint) for variable in module.functions]:
                raise UnsupportedShape("the second")
            return STAGES[name](module, target)

        return run

    nothing: Future[LoweredBeside] = Future()
    nothing.set_result(LoweredBeside())
    cache = RegionCache(packed, Target(VTA), {name: refusing(name) for name in STAGES}, beside=lambda _: nothing)
    for name in STAGES:
        cache.lower(name)
    with pytest.raises(UnsupportedShape, match="the second"):
        cache.lowered()


def test_objects_that_are_expected_are_as_lowered_here(assistant: LoweringAssistant, layers: list[AnyRegion]) -> None:
    """Whether the process lowers them, or is gone and the job has to."""
    line, other = socket.socketpair()
    other.close()
    here = RegionTimer(Target(VTA))
    for helper in (assistant, LoweringAssistant(line)):
        beside = RegionTimer(Target(VTA), assistant=helper)
        beside.expect(layers)
        for region in layers:
            one, made = here.object_of(region), beside.object_of(region)
            assert one is not None
            assert made is not None
            assert dump_object(made) == dump_object(one)
            assert isinstance(beside.lowered[dump_region(region)], bytes) == (helper is assistant)
    line.close()
