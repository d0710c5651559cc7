"""What launches leave in the memories and in DRAM, against numpy, bit by bit."""

import numpy as np
import pytest

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.accelerator.tables import ByteTable, InterpolatedTable
from accel.errors import CyclopsError, SimulationError
from accel.isa.decode import decode
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.explicit.explicit_family import FAMILY
from accel.util.arrays import aligned_zeros
from tests.helpers.documents.explicit_documents import document, random_rows, row, stream
from tests.reference.explicit_function import Reference

DRAM = 512
ACCELERATOR = document({"kind": "in_order"})


@pytest.fixture(scope="module")
def machine():
    return ExplicitMachine(ACCELERATOR)


def random_dram(rng):
    dram = aligned_zeros(DRAM)
    dram[:] = rng.integers(0, 256, DRAM)
    return dram


@pytest.mark.parametrize("seed", range(60))
def test_random_launches_leave_what_numpy_leaves(seed):
    rng = np.random.default_rng(seed)
    machine, dram = ExplicitMachine(ACCELERATOR), random_dram(rng)
    reference = Reference(dram)
    for _ in range(3):  # memories stay from launch to launch
        rows = [r for r in random_rows(rng, 30, ACCELERATOR, DRAM) if not r["fields"].get("imm", 0) < 0]
        machine.run(stream(ACCELERATOR, rows), dram)
        reference.run(rows)
    for name, expected in reference.memories.items():
        np.testing.assert_array_equal(machine.contents(name), expected)
    np.testing.assert_array_equal(dram, reference.dram)


def test_a_float_leaves_the_machine_rounded_half_to_even(machine):
    dram = aligned_zeros(DRAM)
    dram[:16].view(np.int32)[:] = [1, 3, -5, 1000]
    scale = int(np.float32(0.5).view(np.uint32))
    machine.run(stream(ACCELERATOR, [row("load_c"), row("store", dram=100, scale=scale)]), dram)
    assert dram[100:104].view(np.int8).tolist() == [0, 2, -2, 127]  # 0.5, 1.5 and -2.5 go to the even neighbour


def with_tables() -> Accelerator:
    """The machine whose alu looks results up, of which the low byte counts, and whose store goes through a curve."""
    squares = ByteTable(kind="bytes", name="squares", of="int8", dtype="int32", values=tuple(SQUARES))
    curve = InterpolatedTable(kind="interpolated", name="curve", low=-4, high=4, values=CURVE)
    alu, store = ACCELERATOR.instruction("alu"), ACCELERATOR.instruction("store")
    looks = alu.operations[3].model_copy(update={"does": "D[i, j] = lut(squares, i8(S[i, j]))"})
    bent = store.operations[0].model_copy(update={"does": "dram[i, j] = i8(lut(curve, f32(sram[i, j]) * scale))"})
    changed = {
        "alu": alu.model_copy(update={"operations": (*alu.operations[:3], looks)}),
        "store": store.model_copy(update={"operations": (bent, *store.operations[1:])}),
    }
    instructions = tuple(changed.get(each.name, each) for each in ACCELERATOR.instructions)
    made = ACCELERATOR.model_copy(update={"tables": (squares, curve), "instructions": instructions})
    check_document(made)
    FAMILY.check(made)
    return made


SQUARES = [float(value * value) for value in range(-128, 128)]
CURVE = (-100.0, -20.0, 0.0, 60.0, 90.0)


def test_instructions_look_numbers_up_in_the_tables_of_the_document():
    """Catches a table that the kernel does not get, or gets for another one, and one that is kept for all documents."""
    accelerator, dram = with_tables(), aligned_zeros(DRAM)
    dram[:16].view(np.int32)[:] = [3, -7, 300, -128]  # 300 is 44 in its low byte
    scale = int(np.float32(0.001).view(np.uint32))
    rows = [row("load_c"), row("alu", op=3, d=1, s=0), row("store_wide", sram=1, dram=2)]
    rows += [row("store", sram=1, dram=100, scale=scale)]
    ExplicitMachine(accelerator).run(stream(accelerator, rows), dram)
    assert dram[32:48].view(np.int32).tolist() == [9, 49, 44 * 44, 128 * 128]
    places = np.array([9, 49, 44 * 44, 128 * 128]) * np.float64(np.float32(0.001))
    assert dram[100:104].view(np.int8).tolist() == np.trunc(np.interp(places, [-4, -2, 0, 2, 4], CURVE)).tolist()
    other = tuple(table.model_copy(update={"values": tuple(-v for v in table.values)}) for table in accelerator.tables)
    changed = accelerator.model_copy(update={"tables": other})
    ExplicitMachine(changed).run(stream(changed, rows), dram)
    assert dram[32:48].view(np.int32).tolist() == [-9, -49, -44 * 44, -128 * 128]


def test_nothing_is_moved_by_a_copy_without_rows_or_columns(machine):
    dram = random_dram(np.random.default_rng(0))
    before = dram.copy(), machine.contents("x")
    rows = [row("load_x", rows=0, pad_top=2, sram=11), row("load_x", columns=0), row("store_wide", rows=0, dram=60000)]
    machine.run(stream(ACCELERATOR, rows), dram)
    np.testing.assert_array_equal(dram, before[0])
    np.testing.assert_array_equal(machine.contents("x"), before[1])


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (row("load_w", sram=7, columns=2), "memory-range", "index 8 of w is out of range; it has 8"),
        (row("load_c", dram=31, columns=2), "dram-range", "DRAM byte 527 is out of range; the program's DRAM has 512"),
        (row("store_wide", dram=1, rows=2, row_stride=31), "dram-range", "DRAM byte 527 is out of range"),
        (row("load_x", sram=11, pad_left=1), "memory-range", "index 12 of x"),
        (row("gemm", x=11), "memory-range", "index 12 of x"),  # an operand of two elements
        (row("gemm", w=1, outer=3), "memory-range", "index -1 of w"),  # its step is -1
        (row("gemm", op=1, inner=6), "field-range", "inner = 6; the loop makes 5 iterations at most"),
        (row("alu", op=1, d=9, count=2), "memory-range", "index 10 of c"),
        (row("gemm", op=2), "undefined-opcode", "op = 2 chooses no operation; there are accumulate .op = 0.; zero"),
        (row("store", how=3), "undefined-opcode", "how = 3 chooses no operation"),
    ],
)
def test_what_an_instruction_cannot_do_is_refused_before_anything_runs(machine, given, kind, message):
    dram = random_dram(np.random.default_rng(1))
    before = dram.copy()
    decoded = stream(ACCELERATOR, [row("store_wide", dram=3), given, row("load_w", sram=200)])
    for check in (lambda: FAMILY.check_launch(decoded, DRAM), lambda: machine.run(decoded, dram)):
        with pytest.raises(SimulationError, match=message) as caught:
            check()
        assert (caught.value.kind, caught.value.instruction) == (kind, 1)
    np.testing.assert_array_equal(dram, before)


def test_an_operand_that_the_operation_does_not_name_is_not_checked(machine):
    machine.run(stream(ACCELERATOR, [row("gemm", op=1, x=31, w=31), row("alu", op=1, s=15)]), aligned_zeros(DRAM))


def test_addresses_in_bytes_are_multiples_of_the_scalar():
    fields = {"load_c": "element", "store_wide": "byte"}
    changed = tuple(
        i.model_copy(update={"dram_unit": fields[i.name]}) if i.name in fields else i for i in ACCELERATOR.instructions
    )
    accelerator = ACCELERATOR.model_copy(update={"instructions": changed})
    with pytest.raises(SimulationError, match="dram = 6 is no multiple of 4, the bytes of int32"):
        FAMILY.check_launch(stream(accelerator, [row("store_wide", dram=6)]), DRAM)


@pytest.mark.parametrize("seed", range(150))
def test_random_words_never_reach_beyond_the_memories(machine, seed):
    """Every word either is refused or stays inside: bytes around all memories keep what they hold."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([64, DRAM]))
    guarded = aligned_zeros(size + 256)
    guarded[:] = rng.integers(0, 256, len(guarded))
    dram, before = guarded[128 : 128 + size], guarded.copy()
    walls = [_between_walls(machine, number) for number in range(3)]
    words = _plausible_words(rng)
    try:
        decoded = decode(ACCELERATOR, words)
        FAMILY.check_launch(decoded, size)
    except CyclopsError:
        return
    machine.run(decoded, dram)
    np.testing.assert_array_equal(guarded[:128], before[:128])
    np.testing.assert_array_equal(guarded[128 + size :], before[128 + size :])
    for wall in walls:
        assert (wall[:128] == 0x5A).all()
        assert (wall[-128:] == 0x5A).all()
    boxes = FAMILY.boxes(decoded)
    written = np.zeros(size, np.bool_)
    for at in np.flatnonzero(boxes.write):
        for r in range(boxes.rows[at]):
            begin = boxes.begin[at] + r * boxes.row_stride[at]
            written[begin : begin + boxes.row_bytes[at]] = True
    np.testing.assert_array_equal(guarded[128 : 128 + size][~written], before[128 : 128 + size][~written])


def _plausible_words(rng):
    """Bits at random, fewer in some words so that not all instructions are refused; the opcodes are the machine's."""
    words = rng.integers(0, 1 << 63, (int(rng.integers(1, 4)), 3), np.uint64)
    for _ in range(int(rng.integers(0, 4))):
        words &= rng.integers(0, 1 << 63, words.shape, np.uint64)
    words[:, 0] = words[:, 0] & ~np.uint64(15) | rng.integers(1, 9, len(words), np.uint64)
    return words


def _between_walls(machine, number):
    """Move a memory of the machine to where the bytes around it are known."""
    memory = machine._memories[number]
    wall = aligned_zeros(memory.nbytes + 256)
    wall[:] = 0x5A
    inside = wall[128 : 128 + memory.nbytes].view(memory.dtype)
    inside[:] = memory
    machine._memories[number] = inside
    return wall


def test_effort_and_boxes_count_what_moves():
    decoded = stream(
        ACCELERATOR,
        [
            row("load_x", rows=2, columns=3, row_stride=8, pad_left=1, dram=4),
            row("gemm", op=1, outer=3, inner=2),
            row("load_w", rows=0),
            row("store_wide", dram=2),
            row("nop"),
        ],
    )
    assert FAMILY.effort(decoded).tolist() == [8, 6, 0, 1, 0]
    boxes = FAMILY.boxes(decoded)
    assert boxes.instruction.tolist() == [0, 3]
    assert boxes.begin.tolist() == [4, 32]
    assert boxes.rows.tolist() == [2, 1]
    assert boxes.row_bytes.tolist() == [6, 16]
    assert boxes.row_stride.tolist() == [8, 0]
    assert boxes.write.tolist() == [False, True]
    work = FAMILY.work(decoded)
    assert work.bus_cycles == 4  # 16 bytes written are more than 12 read, over 4 bytes a cycle
    assert work.contract_cycles == 0
    assert work.compute_cycles == 2 + 6 + 1
