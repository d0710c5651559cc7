"""Nests that an instruction can do, one by one, and nests that it cannot."""

from collections.abc import Callable
from typing import Any

import pytest
from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompileError
from accel.lowering.inject.compute_injection import inject_compute
from accel.lowering.inject.copy_injection import inject_copy
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import nest_of
from accel.lowering.ir.tir_walk import collect

VTA = load_accelerator("vta")


def buffers(*specs: tuple[str, int, str, str]) -> list[tirx.Var]:
    return [tirx.decl_buffer((size,), dtype, name, scope=scope) for name, size, dtype, scope in specs]


def loops(extents: list[int], body: Callable[..., tirx.Stmt]) -> tirx.Stmt:
    variables = [tirx.Var(f"i{k}", "int32") for k in range(len(extents))]
    statement = body(*variables)
    for variable, extent in reversed(list(zip(variables, extents, strict=True))):
        zero, size = tirx.const(0, "int32"), tirx.const(extent, "int32")
        statement = tirx.For(variable, zero, size, tirx.ForKind.SERIAL, statement)
    return statement


def fields(statement: tirx.Stmt) -> dict[str, Any]:
    (call,) = collect(statement, tirx.Evaluate)
    values = instruction_calls.parse(call)[1]
    return {name: int(value) if isinstance(value, tirx.IntImm) else str(value) for name, value in values.items()}


def copied(statement: tirx.Stmt, accelerator: Accelerator = VTA) -> tirx.Stmt:
    target = Target(accelerator)
    copies = [meaning for meaning in target.semantics if isinstance(meaning.instruction, Copy)]
    return inject_copy(nest_of(statement), copies, target)


def computed(statement: tirx.Stmt, accelerator: Accelerator = VTA) -> tirx.Stmt:
    target = Target(accelerator)
    computes = [meaning for meaning in target.semantics if not isinstance(meaning.instruction, Copy)]
    return inject_compute(nest_of(statement), computes, target)


INP = "local.inp_buffer"
ACC = "local.acc_buffer"


def test_a_padded_image_is_one_load() -> None:
    dram, sram = buffers(("x", 4096, "int8", "global"), ("tile", 16 * 7 * 7, "int8", INP))

    def body(y: Any, x: Any, i: Any) -> tirx.Stmt:
        inside = tirx.all(y >= 1, y < 5, x >= 2, x < 6)
        value = tirx.if_then_else(inside, dram[y * 160 + x * 16 + i - 192], tirx.const(0, "int8"))
        return tirx.BufferStore(sram, value, [y * 112 + x * 16 + i])

    got = fields(copied(loops([7, 7, 16], body)))
    assert {name: got[name] for name in ("y_size", "x_size", "x_stride", "&dram.index", "&sram.index")} == {
        "y_size": 4,
        "x_size": 4,
        "x_stride": 10,
        "&dram.index": 0,
        "&sram.index": 0,
    }
    assert [got[name] for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")] == [1, 2, 2, 1]


def test_contiguous_rows_are_one_row() -> None:
    dram, sram = buffers(("x", 4096, "int8", "global"), ("tile", 16 * 30, "int8", INP))
    nest = loops(
        [5, 6, 16], lambda y, x, i: tirx.BufferStore(sram, dram[y * 96 + x * 16 + i + 32], [y * 96 + x * 16 + i])
    )
    got = fields(copied(nest))
    assert (got["y_size"], got["x_size"], got["&dram.index"]) == (1, 30, 2)


def test_a_third_dimension_becomes_a_loop() -> None:
    dram, sram = buffers(("x", 1 << 16, "int8", "global"), ("tile", 16 * 24, "int8", INP))

    def body(c: Any, y: Any, x: Any, i: Any) -> tirx.Stmt:
        return tirx.BufferStore(sram, dram[c * 8000 + y * 160 + x * 16 + i], [c * 192 + y * 64 + x * 16 + i])

    statement = copied(loops([2, 3, 4, 16], body))
    assert isinstance(statement, tirx.For)
    assert int(statement.extent) == 2
    got = fields(statement)
    assert (got["y_size"], got["x_size"], got["x_stride"]) == (3, 4, 10)


def test_a_store_narrows() -> None:
    sram, dram = buffers(("acc", 64, "int32", ACC), ("y", 256, "int8", "global"))
    nest = loops([4, 16], lambda x, o: tirx.BufferStore(dram, sram[x * 16 + o].astype("int8"), [x * 16 + o]))
    got = fields(copied(nest))
    assert (got["y_size"], got["x_size"]) == (1, 4)
    assert "y_pad_0" not in got


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda s, d, x, i: tirx.BufferStore(s, d[x * 16 + i] + tirx.const(1, "int8"), [x * 16 + i]), "expected dram"),
        (lambda s, d, x, i: tirx.BufferStore(s, d[x * 16 + i * 2], [x * 16 + i]), "one element"),
        (lambda s, d, x, i: tirx.BufferStore(s, d[x * x * 16 + i], [x * 16 + i]), "not affine"),
        (
            lambda s, d, x, i: tirx.BufferStore(
                s, tirx.if_then_else(x + i < 9, d[x * 16 + i], tirx.const(0, "int8")), [x * 16 + i]
            ),
            "exactly one loop",
        ),
    ],
)
def test_copies_that_are_none(body: Callable[..., tirx.Stmt], message: str) -> None:
    dram, sram = buffers(("x", 4096, "int8", "global"), ("tile", 16 * 8, "int8", INP))
    with pytest.raises(CompileError, match=message):
        copied(loops([8, 16], lambda x, i: body(sram, dram, x, i)))


def test_no_instruction_copies_between_scratchpads() -> None:
    one, other = buffers(("a", 64, "int8", "local.wgt_buffer"), ("b", 64, "int8", INP))
    with pytest.raises(CompileError, match="cannot be dram"):
        copied(loops([4, 16], lambda x, i: tirx.BufferStore(other, one[x * 16 + i], [x * 16 + i])))


def product(scale: int = 1) -> tuple[Any, tirx.Stmt]:
    data, weights, acc = buffers(
        ("d", 256, "int8", INP), ("w", 512, "int8", "local.wgt_buffer"), ("a", 128, "int32", ACC)
    )

    def body(x: Any, k: Any, o: Any, i: Any) -> tirx.Stmt:
        at = x * 16 + o
        term = data[x * 16 + k * 128 + i].astype("int32") * weights[k * 256 + o * 16 * scale + i].astype("int32")
        return tirx.BufferStore(acc, acc[at] + term, [at])

    return acc, loops([8, 2, 16, 16], body)


def test_a_product_is_a_gemm() -> None:
    _, statement = product()
    got = fields(computed(statement))
    assert (got["reset_reg"], got["iter_out"], got["iter_in"]) == (0, 8, 2)
    assert (got["dst_factor_out"], got["src_factor_out"], got["wgt_factor_out"]) == (1, 1, 0)
    assert (got["dst_factor_in"], got["src_factor_in"], got["wgt_factor_in"]) == (0, 8, 1)


def test_zeros_are_a_gemm_that_resets() -> None:
    (acc,) = buffers(("a", 128, "int32", ACC))
    nest = loops([8, 16], lambda x, o: tirx.BufferStore(acc, tirx.const(0, "int32"), [x * 16 + o]))
    got = fields(computed(nest))
    assert (got["reset_reg"], got["iter_in"]) == (1, 8)


def test_a_transposed_tile_is_no_gemm() -> None:
    _, statement = product(scale=2)
    with pytest.raises(CompileError, match="no loop walks axis o of gemm"):
        computed(statement)


def test_another_operation_is_no_gemm() -> None:
    (acc,) = buffers(("a", 128, "int32", ACC))
    nest = loops([8, 16], lambda x, o: tirx.BufferStore(acc, acc[x * 16 + o] // 2, [x * 16 + o]))
    with pytest.raises(CompileError, match="no instruction does"):
        computed(nest)


@pytest.mark.parametrize(
    ("operation", "name", "immediate"),
    [
        (lambda v: v + 256, "add", 256),
        (lambda v: v >> 9, "shift_right", 9),
        (lambda v: v << 3, "shift_right", -3),
        (lambda v: tirx.max(v, -127), "max", -127),
        (lambda v: tirx.min(127, v), "min", 127),
        (lambda v: v * 3, "multiply", 3),
    ],
)
def test_elementwise_operations(operation: Callable[[Any], Any], name: str, immediate: int) -> None:
    (acc,) = buffers(("a", 128, "int32", ACC))
    nest = loops([8, 16], lambda x, o: tirx.BufferStore(acc, operation(acc[x * 16 + o]), [x * 16 + o]))
    got = fields(computed(nest))
    operations = {operation.name: operation.when for operation in VTA.instruction("alu").operations}
    assert got["alu_opcode"] == operations[f"{name}_imm"]["alu_opcode"]
    assert (got["use_imm"], got["imm"], got["iter_in"]) == (1, immediate, 8)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda v: v + (1 << 15), "imm = 32768 does not fit 16 signed bits"),
        (lambda v: v * 3, "no instruction does"),
    ],
)
def test_operations_that_it_has_not(operation: Callable[[Any], Any], message: str) -> None:
    (acc,) = buffers(("a", 128, "int32", ACC))
    nest = loops([8, 16], lambda x, o: tirx.BufferStore(acc, operation(acc[x * 16 + o]), [x * 16 + o]))
    with pytest.raises(CompileError, match=message):
        computed(nest, load_accelerator("vta-chisel"))
