import itertools

from accel.accelerator.contraction import contraction
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.codegen.microop_tables import MicroOpTable, OperandWalk, dump_tables, expand_tables, load_tables
from accel.lowering.inject.hardware_loops import LoopAxis, assign_hardware_loops

VTA = load_accelerator("vta")
GEMM = contraction(VTA).instruction
OPERANDS = ["dst", "data", "weights"]
TABLES = [
    MicroOpTable(0, (), (), {"dst_idx": OperandWalk(5, (), ())}),
    MicroOpTable(
        1,
        (2, 2),
        (3, 4),
        {
            "dst_idx": OperandWalk(10, (100, 0), (0, 0)),
            "src_idx": OperandWalk(20, (0, 200), (16, 1)),
            "wgt_idx": OperandWalk(30, (0, 40), (4, 1)),
        },
    ),
]


def test_expansion_is_the_loop_nest() -> None:
    assert GEMM.microops is not None
    image = expand_tables(TABLES, GEMM.microops).tolist()
    fields = {field.name: field.lsb for field in GEMM.microops.fields}
    expected = [5 << fields["dst_idx"]]
    for result, operand, y, x in itertools.product(range(2), range(2), range(3), range(4)):
        dst, src, wgt = 10 + 100 * result, 20 + 200 * operand + 16 * y + x, 30 + 40 * operand + 4 * y + x
        expected.append(dst << fields["dst_idx"] | src << fields["src_idx"] | wgt << fields["wgt_idx"])
    assert image == expected


def test_tables_travel_as_text() -> None:
    assert load_tables(dump_tables(TABLES)) == TABLES


def test_the_longest_loops_run_in_hardware() -> None:
    axes = [LoopAxis(3, (0, 16, 3)), LoopAxis(7, (14, 16, 0)), LoopAxis(2, (0, 0, 9)), LoopAxis(14, (1, 1, 0))]
    assigned = assign_hardware_loops(axes, GEMM, OPERANDS, VTA)
    assert {name: int(value) for name, value in assigned.fields.items()} == {
        "iter_out": 7,
        "dst_factor_out": 14,
        "src_factor_out": 16,
        "wgt_factor_out": 0,
        "iter_in": 14,
        "dst_factor_in": 1,
        "src_factor_in": 1,
        "wgt_factor_in": 0,
    }
    assert assigned.left == (axes[0], axes[2])


def test_loops_that_all_operands_walk_as_one_are_one() -> None:
    axes = [LoopAxis(7, (14, 28, 0)), LoopAxis(14, (1, 2, 0))]
    assigned = assign_hardware_loops(axes, GEMM, OPERANDS, VTA)
    assert (int(assigned.fields["iter_out"]), int(assigned.fields["iter_in"])) == (1, 98)
    assert assigned.left == ()


def test_a_hardware_loop_is_never_longer_than_its_field_counts() -> None:
    limit = 1 << VTA.bits(GEMM, "iter_in")
    assigned = assign_hardware_loops([LoopAxis(limit // 8, (8, 8, 0)), LoopAxis(8, (1, 1, 0))], GEMM, OPERANDS, VTA)
    assert (int(assigned.fields["iter_out"]), int(assigned.fields["iter_in"])) == (limit // 8, 8)
    assert assigned.left == ()
