"""Whatever machine with a vector unit a check takes: a random network runs on it, verified, and reasons are so.

Each result is held against the integer graph or the bounds of its rounding, and against ONNX's own evaluator; and no
vector program takes fewer cycles than its bound says.
"""

import re
from pathlib import Path

import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import InvalidAccelerator
from accel.lowering.analysis.float_units import home_memory
from accel.report.documents.report_documents import Report
from bench.vector_programs import Measured, measure
from tests.helpers.documents.random_vector_machines import random_vector_machine
from tests.helpers.marking import rest_all
from tests.helpers.models.random_float_networks import random_float_network

_MANY = range(100000, 100240)  # of which a check takes more than 200
_MISSING = re.compile(r"no instruction does (exp|log|sqrt|tanh|erf|floor|sigmoid)\(x\);")


def made(seed: int) -> Accelerator | None:
    """The machine of a seed, or None where a check refuses it."""
    try:
        return parse_accelerator(random_vector_machine(seed))
    except InvalidAccelerator:
        return None


def run(model: onnx.ModelProto, accelerator: Accelerator, out: Path) -> Report:
    out.mkdir(exist_ok=True)
    report = run_model(model.SerializeToString(), accelerator, Options(trace=False, schedule="quick"), out)
    assert report.verified or not report.layers
    assert report.layers or report.host_ops
    does = " ".join(
        str(operation.does)
        for instruction in accelerator.instructions
        if isinstance(instruction, Compute)
        for operation in instruction.operations
    )
    for node in report.host_ops:
        missing = _MISSING.search(node.reason)
        assert missing is None or re.search(rf"\b{missing[1]}\(", does) is None, node  # no sqrt is in rsqrt
    return report


def programs(seed: int) -> list[Measured]:
    """The vector programs of a seed's network on its machine, each as a launch by itself; none where there is none."""
    accelerator = made(seed)
    return [] if accelerator is None else measure(str(seed), random_float_network(seed), Target(accelerator))


def below(found: list[Measured]) -> list[Measured]:
    """The programs that are faster than their bounds."""
    return [each for each in found if each.cycles < each.bound * (1 - 1e-9)]


# registers, elements of four numbers and a memory of rows' numbers; then lanes of one number
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_all([4, 28, 1002, 13]))
def test_a_few_machines(seed: int, tmp_path: Path) -> None:
    """It would catch a program that is wrong on a vector unit unlike the preset's."""
    accelerator = made(seed)
    assert accelerator is not None
    run(random_float_network(seed), accelerator, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(_MANY.start, _MANY.stop, 20))
def test_many_machines(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        accelerator = made(seed)
        if accelerator is not None:
            run(random_float_network(seed), accelerator, tmp_path / str(seed))


@pytest.mark.slow
def test_no_program_of_a_few_machines_is_below_its_bound() -> None:
    """It would catch a bound that counts iterations which an instruction of wide elements does together."""
    found = [each for seed in (16, 4, 100001) for each in programs(seed)]
    assert found
    assert not below(found)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(_MANY.start, _MANY.stop, 20))
def test_no_program_of_many_machines_is_below_its_bound(first: int) -> None:
    assert not [each for seed in range(first, first + 20) for each in below(programs(seed))]


@pytest.mark.long
def test_the_many_are_more_than_two_hundred() -> None:
    """It would catch a check that refuses more of them, or a generator that makes fewer which can work."""
    assert sum(made(seed) is not None for seed in _MANY) > 200


def test_machines_are_of_many_kinds() -> None:
    """It would catch a generator most of whose machines are refused, or have no vector unit."""
    machines = [accelerator for seed in range(16) if (accelerator := made(seed)) is not None]
    assert len(machines) >= 12
    assert all(home_memory(each) is not None for each in machines)
    assert len({each.synchronisation.kind for each in machines}) == 3
