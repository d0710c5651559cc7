"""The bytes and the energy of a whole run, by hand."""

import json

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.program.program_model import HostStep, Launch, Program, Segment
from accel.report.end_to_end import DramTensors, PricedStep, end_to_end
from accel.report.run_traffic import energy_of_run, traffic_of
from tests.helpers.documents.host_by_hand import HOST

SIZES = {"x": 64, "p": 96, "q": 640, "w": 1000, "y": 32}


def program(*steps: Launch | HostStep) -> Program:
    segments = {
        name: Segment(name=name, address=1024 * at, shape=(size,), dtype="int8")
        for at, (name, size) in enumerate(SIZES.items())
    }
    accelerator = load_accelerator("mvin-mvout")
    return Program(
        accelerator=accelerator,
        words=np.zeros((0, accelerator.word_bits // 64), np.uint64),
        origin=np.zeros(0, np.uint32),
        origins=(),
        segments=segments,
        image={},
        steps=steps,
        inputs=("x",),
        outputs=("y",),
        dram_bytes=8192,
    )


def launch(reads: tuple[str, ...], writes: tuple[str, ...]) -> Launch:
    return Launch("l", "conv2d", (), 0, 0, 0, reads, writes)


def host(reads: tuple[str, ...], writes: tuple[str, ...]) -> HostStep:
    return HostStep("h", "", (), reads, writes)


def test_what_launches_hand_on_is_not_compulsory() -> None:
    """It would catch a tensor that is counted for each reader, and one that the host reads and is not counted."""
    chain = program(launch(("x", "w"), ("p",)), launch(("p", "w"), ("q",)), launch(("q",), ("y",)))
    found = traffic_of(chain, bytes_read=4000, bytes_written=500)
    assert (found.compulsory_read, found.compulsory_written) == (64 + 1000, 32)
    assert found.ratio == pytest.approx(4500 / 1096)
    apart = program(launch(("x", "w"), ("p",)), host(("p",), ("q",)), launch(("q", "x"), ("y",)))
    found = traffic_of(apart, bytes_read=0, bytes_written=0)
    assert (found.compulsory_read, found.compulsory_written) == (64 + 1000 + 640, 96 + 32)
    over = program(launch(("x",), ("p",)), host(("x",), ("p",)), launch(("p",), ("y",)))
    found = traffic_of(over, bytes_read=0, bytes_written=0)
    assert (found.compulsory_read, found.compulsory_written) == (64 + 96, 32)
    nothing = traffic_of(program(host(("x",), ("y",))), bytes_read=0, bytes_written=0)
    assert nothing.ratio is None


def costing(**costs: float) -> Accelerator:
    document = json.loads(load_accelerator("mvin-mvout").model_dump_json()) | {"clock_mhz": 100.0}
    document["dram"] |= {name: value for name, value in costs.items() if name != "energy"}
    document["host"] = json.loads(HOST.model_dump_json()) | {"clock_mhz": 400.0}
    if "energy" in costs:
        document["host"]["energy"] = costs["energy"]
    return Accelerator.model_validate(document)


def test_energy_by_part() -> None:
    traffic = traffic_of(program(launch(("x",), ("y",))), bytes_read=1000, bytes_written=100)
    machine = costing(read_energy=2.5, write_energy=4.0, energy=30.0)
    steps = (PricedStep("l", "launch", (), ("x",), ("y",), cycles=5000),)
    whole = end_to_end(steps, DramTensors(SIZES, ("x",), ("y",)), machine, bounded=False)
    found = energy_of_run(machine, 777.0, traffic, whole)
    assert found is not None
    assert (found.instructions, found.dram) == (777.0, 2500 + 400)
    assert found.host == pytest.approx((whole.cycles - 5000) * 4 * 30)
    assert (found.total, found.unknown) == (pytest.approx(777 + 2900 + found.host), [])


def test_a_part_without_costs_is_named() -> None:
    traffic = traffic_of(program(launch(("x",), ("y",))), bytes_read=1000, bytes_written=100)
    found = energy_of_run(costing(write_energy=4.0), None, traffic, None)
    assert found is not None
    assert (found.dram, found.total, found.unknown) == (400, 400, ["instructions", "host"])
    assert energy_of_run(costing(), None, traffic, None) is None


@pytest.mark.parametrize(("name", "wrong"), [("read_energy", -1.0), ("write_energy", float("inf")), ("energy", "much")])
def test_wrong_costs_are_refused_by_their_place(name: str, wrong: object) -> None:
    with pytest.raises(ValueError, match=name):
        costing(**{name: wrong})  # type: ignore[arg-type]
