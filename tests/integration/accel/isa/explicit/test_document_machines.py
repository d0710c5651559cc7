"""Documents with registers of several types, copies of four extents and stores with operands, against plain numpy."""

from pathlib import Path

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute
from accel.catalog.load_accelerator import parse_accelerator
from accel.errors import SimulationError
from accel.isa.decode import Decoded, decode
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.explicit.hazards.boxes import check_bounds
from accel.util.arrays import Words, aligned_zeros
from tests.helpers.marking import rest_all
from tests.reference.document_machine import DocumentMachine

MACHINES = Path(__file__).parents[5] / "docs" / "machines"
DRAM = 4096
FUNCTIONS = ("exp", "rsqrt", "tanh", "sigmoid", "erf")  # what numpy does otherwise


def machine(name: str) -> Accelerator:
    """A document of known machines, with memories of a few elements and without functions that numpy has not."""
    whole = parse_accelerator((MACHINES / f"{name}.yaml").read_bytes())
    most = 64 * 64
    memories = [
        memory.model_copy(update={"depth": max(min(memory.bytes, most) // memory.element_bytes, 1)})
        for memory in whole.memories
    ]
    instructions = [
        each.model_copy(update={"operations": tuple(one for one in each.operations if one.name not in FUNCTIONS)})
        if isinstance(each, Compute)
        else each
        for each in whole.instructions
    ]
    return whole.model_copy(update={"memories": tuple(memories), "instructions": tuple(instructions)})


def random_words(accelerator: Accelerator, count: int, rng: np.random.Generator) -> Decoded:
    """Instructions whose fields are drawn, but for those that leave a memory or move parts of scalars."""
    found = list[Words]()
    while len(found) < count:
        instruction = accelerator.instructions[rng.integers(len(accelerator.instructions))]
        word = np.zeros(accelerator.word_bits // 64, np.uint64)
        for field in instruction.fields:
            most = DRAM if field.name == "dram" else 300 if field.name.endswith(("dram", "stride")) else 40
            value = int(rng.integers(min(most if rng.random() < 0.5 else 4, 1 << field.bits)))
            if field.type == "float32":
                value = int(np.float32(rng.normal(0, 2)).view(np.uint32))
            elif field.type == "signed":
                value = int(rng.integers(1 << field.bits))
            elif field.name == "dram" or field.name.endswith(("_dram", "row_stride")):
                value -= value % 4
            value = value if field.value is None else field.value
            word[field.lsb // 64] |= np.uint64(value << field.lsb % 64)
        try:
            check_bounds(decode(accelerator, word[np.newaxis]), DRAM)
        except SimulationError:
            continue
        found.append(word)
    return decode(accelerator, np.stack(found))


CASES = [(name, seed) for seed in range(20) for name in ("vector-file", "channel-scales")]


@pytest.mark.parametrize(("name", "seed"), rest_all(CASES, keep=2))
def test_random_words_leave_what_numpy_leaves(name: str, seed: int) -> None:
    """Catches a view that is read elsewhere or as other bytes, a dimension that steps wrong, an operand of a store."""
    rng, accelerator = np.random.default_rng(seed), machine(name)
    dram = aligned_zeros(DRAM)
    dram[:] = rng.integers(0, 256, DRAM)
    expected, reference, engine = dram.copy(), DocumentMachine(accelerator), ExplicitMachine(accelerator)
    for _ in range(2):
        launch = random_words(accelerator, 25, rng)
        engine.run(launch, dram)
        reference.run(launch.words, expected)
    for memory in accelerator.memories:
        left, wanted = engine.contents(memory.name), reference.contents(memory.name)
        np.testing.assert_array_equal(left.view(np.uint8), wanted.view(np.uint8), err_msg=memory.name)
    np.testing.assert_array_equal(dram, expected)
