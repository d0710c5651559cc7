"""Whatever machine with a vector unit a check takes: a random network runs on it, verified, and reasons are so.

Each result is held against the integer graph or the bounds of its rounding, and against ONNX's own evaluator.
"""

import re
from pathlib import Path

import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute
from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import InvalidAccelerator
from accel.lowering.analysis.float_units import home_memory
from accel.report.documents.report_documents import Report
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
        assert missing is None or f"{missing[1]}(" not in does, node
    return report


# registers, elements of four numbers and a memory of rows' numbers; then lanes of one number
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_all([28, 4, 1002, 13], keep=2))
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


def test_machines_are_of_many_kinds() -> None:
    """It would catch a generator most of whose machines are refused, or have no vector unit."""
    machines = [accelerator for seed in range(16) if (accelerator := made(seed)) is not None]
    assert len(machines) >= 12
    assert all(home_memory(each) is not None for each in machines)
    assert len({each.synchronisation.kind for each in machines}) == 3
