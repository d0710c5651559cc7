"""Random small programs for any VTA, and what they do by the reference."""

import numpy as np

from accel.accelerator.document import Accelerator
from accel.util.arrays import aligned_zeros
from tests.helpers.programs.streams import stream
from tests.reference.vta import ReferenceVta

Program = list[tuple[str, dict[str, int]]]
PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
MICROOPS = 64


def random_copy(
    random: np.random.Generator, accelerator: Accelerator, name: str, dram_bytes: int
) -> tuple[str, dict[str, int]]:
    copy = accelerator.instruction(name)
    memory = accelerator.memory(copy.memory)
    pads = dict.fromkeys(PADS, 0)
    if copy.direction == "load":
        pads = {pad: int(random.integers(0, 3)) for pad in pads}
    rows, columns = (int(v) for v in random.integers(0, 4, 2))
    if (rows + 4) * (columns + 4) > memory.depth:
        rows, columns, pads = min(rows, 1), min(columns, 1), dict.fromkeys(pads, 0)
    size = (rows + pads["y_pad_0"] + pads["y_pad_1"]) * (columns + pads["x_pad_0"] + pads["x_pad_1"])
    stride = int(random.integers(0, 6))
    last = dram_bytes // copy.dram_bytes(memory) - 3 * stride - 3
    sram, dram = int(random.integers(0, memory.depth - size + 1)), int(random.integers(0, last))
    fields = {"sram_base": sram, "dram_base": dram, "y_size": rows, "x_size": columns, "x_stride": stride}
    return name, fields | pads


def random_loops(random: np.random.Generator, accelerator: Accelerator, name: str) -> tuple[str, dict[str, int]]:
    microops = min(MICROOPS, accelerator.memory("uop").depth)
    begin = int(random.integers(0, max(microops - 6, 1)))
    end = min(begin + int(random.integers(0, 6)), microops)
    fields = {"uop_bgn": begin, "uop_end": end}
    fields |= {field: int(random.integers(0, 4)) for field in ("iter_out", "iter_in")}
    kinds = {"dst": "acc", "src": "inp" if name == "gemm" else "acc"} | ({"wgt": "wgt"} if name == "gemm" else {})
    for kind, memory in kinds.items():
        for side in ("out", "in"):
            fields[f"{kind}_factor_{side}"] = int(random.integers(0, _step(accelerator, memory) + 1))
    if name == "gemm":
        return name, fields | {"reset_reg": int(random.integers(0, 8) == 0)}
    immediate = random.integers(-(1 << 15), 1 << 15) if random.integers(0, 2) else random.integers(-33, 34)
    return name, fields | {
        "alu_opcode": int(random.choice(opcodes(accelerator))),
        "use_imm": int(random.integers(0, 2)),
        "imm": int(immediate),
    }


def opcodes(accelerator: Accelerator) -> list[int]:
    """The codes of the ALU's operations."""
    return sorted({operation.when["alu_opcode"] for operation in accelerator.instruction("alu").operations})


def _step(accelerator: Accelerator, memory: str) -> int:
    """The longest step of a loop that leaves half of a small memory to start from."""
    return min(3, accelerator.memory(memory).depth // 12)


def random_program(seed: int, accelerator: Accelerator, length: int, dram_bytes: int) -> Program:
    random = np.random.default_rng(seed)
    copies = [i.name for i in accelerator.instructions if i.kind == "copy" and i.memory != "uop"]
    microops = min(MICROOPS, accelerator.memory("uop").depth)
    program = [("load_uop", {"y_size": 1, "x_size": microops, "x_stride": microops})]
    program += [random_copy(random, accelerator, name, dram_bytes) for name in copies * 3 if name != "store_out"]
    for _ in range(length):
        name = str(random.choice([*copies, "gemm", "gemm", "alu", "alu"]))
        random_fields = random_loops(random, accelerator, name) if name in ("gemm", "alu") else None
        program.append(random_fields or random_copy(random, accelerator, name, dram_bytes))
    return program


def random_dram(accelerator: Accelerator, seed: int, dram_bytes: int) -> np.ndarray:
    """Random bytes behind micro-ops whose indices leave the loops room to step."""
    random = np.random.default_rng(seed)
    dram = aligned_zeros(dram_bytes)
    dram[:] = random.integers(0, 256, dram_bytes)
    words = np.zeros(MICROOPS, np.uint32)
    memories = {"dst_idx": ["acc"], "src_idx": ["inp", "acc"], "wgt_idx": ["wgt"]}
    for field in accelerator.instruction("gemm").microops.fields:
        room = 6 * max(_step(accelerator, memory) for memory in memories[field.name])
        depth = min(accelerator.memory(memory).depth for memory in memories[field.name])
        words |= (random.integers(0, max(depth - room, 1), MICROOPS) << field.lsb).astype(np.uint32)
    dram[: 4 * MICROOPS] = words.view(np.uint8)
    return dram


def by_reference(accelerator: Accelerator, program: Program, dram: np.ndarray) -> ReferenceVta:
    """The reference after the program; ``dram`` is changed as the program changes it."""
    reference = ReferenceVta(accelerator, dram)
    decoded = stream(accelerator, program)
    for row, (name, _) in enumerate(program):
        fields = {field: int(column[row]) for field, column in decoded.columns.items()}
        if name == "load_acc_8bit":
            reference.load("acc", fields, np.int8)
        elif name.startswith("load"):
            reference.load(name.removeprefix("load_"), fields)
        else:
            getattr(reference, name.removesuffix("_out"))(fields)
    return reference
