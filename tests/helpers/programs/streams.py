"""Instruction streams and small programs, written by hand."""

from typing import Any

import numpy as np
from tvm import relax

from accel.host.host_graph import write_host_graph
from accel.host.relax_rules import RULES
from accel.host.relax_translation import translate
from accel.isa.decode import Decoded
from accel.program.program_model import HostStep, InstructionOrigin, Launch, Program, Segment
from tests.helpers.programs.golden import board
from tests.reference.encode import encode, of_columns


def stream(accelerator: Any, instructions: list[tuple[str, dict[str, int]]]) -> Decoded:
    names = [instruction.name for instruction in accelerator.instructions]
    columns = {f.name: np.zeros(len(instructions), np.int64) for i in accelerator.instructions for f in i.fields}
    for row, (_, fields) in enumerate(instructions):
        for field, value in fields.items():
            columns[field][row] = value
    kind = np.array([names.index(name) for name, _ in instructions], np.int16)
    return of_columns(accelerator, kind, columns)


def host_module(shape: tuple[int, ...], dtype: str, compute: Any) -> str:
    """The host graph of a module whose ``main`` takes one tensor."""
    x = relax.Var("x", relax.TensorType(list(shape), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(compute(x)))
        builder.emit_func_output(result)
    return write_host_graph(translate(builder.get(), RULES))


def small_program() -> Program:
    """x -> host: int32 -> two launches on the accelerator: x + 1, then x + 1 again -> host: float32 -> y."""
    accelerator = board()
    one = {"y_size": 1, "x_size": 4, "x_stride": 4}
    add = [
        ("load_uop", one | {"dram_base": 64, "x_size": 1}),
        ("load_acc", one),
        ("alu", {"uop_end": 1, "iter_out": 1, "iter_in": 4, "dst_factor_in": 1, "src_factor_in": 1, "alu_opcode": 2}
         | {"use_imm": 1, "imm": 1, "push_next": 1}),
        ("store_out", one | {"dram_base": 32, "pop_prev": 1, "push_prev": 1}),
        ("load_uop", {"pop_next": 1}),
        ("finish", {}),
    ]  # fmt: skip
    again = [("alu", add[2][1]), *add[3:]]  # on what the first launch left in the accumulator
    words = encode(stream(accelerator, [*add, *again]))
    segments = [
        Segment("x", 1024, (4, 16), "int8"),
        Segment("wide", 0, (4, 16), "int32"),
        Segment("microops", 256, (1,), "uint32"),
        Segment("sum", 512, (4, 16), "int8"),
        Segment("y", 2048, (4, 16), "float32"),
    ]
    narrow_to_wide = host_module((4, 16), "int8", lambda x: relax.op.astype(x, "int32"))
    to_float = host_module((4, 16), "int8", lambda x: relax.op.astype(x, "float32"))
    return Program(
        accelerator=accelerator,
        segments={segment.name: segment for segment in segments},
        image={"microops": np.zeros(1, np.uint32)},
        inputs=("x",),
        outputs=("y",),
        steps=(
            HostStep("widen", narrow_to_wide, ("input",), ("x",), ("wide",)),
            Launch("first", "add", ("add1",), 0, 6, 64, ("wide",), ("sum",)),
            Launch("second", "add", ("add2",), 6, 4, 64, (), ("sum",)),
            HostStep("float", to_float, ("output",), ("sum",), ("y",)),
        ),
        words=words,
        origin=np.array([0, 0, 1, 1, -1, -1, 1, 1, -1, -1], np.int32),
        origins=(
            InstructionOrigin(("add1",), "add", 0, "pragma_dma_copy", "inject"),
            InstructionOrigin(("add1", "add2"), "add", 1, "pragma_alu", "inject"),
        ),
        dram_bytes=4096,
    )
