"""VTA's instructions in plain numpy and Python, element by element, written from the specification alone."""

from collections.abc import Mapping

import numpy as np

from accel.accelerator.document import Accelerator


class ReferenceVta:
    """On-chip memories and the meaning of each instruction. ``fields`` are an instruction's values by name."""

    def __init__(self, accelerator: Accelerator, dram: np.ndarray) -> None:
        self.dram = dram
        self.memories = {
            m.name: np.zeros((m.depth, *m.shape), {"int8": np.int8, "uint32": np.uint32, "int32": np.int32}[m.dtype])
            for m in accelerator.memories
        }
        with_immediate = [op.does for op in accelerator.instruction("alu").operations if op.when["use_imm"]]
        self.immediate_with = "src" if all("src[" in does for does in with_immediate) else "dst"
        self.field_bits = {f.name: (f.lsb, f.bits) for f in accelerator.instruction("gemm").microops.fields}

    def load(self, name: str, fields: Mapping[str, int], dtype: type | None = None) -> None:
        memory = self.memories[name]
        element = np.dtype(dtype or memory.dtype).itemsize * memory[0].size
        width = fields["x_pad_0"] + fields["x_size"] + fields["x_pad_1"]
        height = fields["y_pad_0"] + fields["y_size"] + fields["y_pad_1"]
        if not fields["x_size"] or not fields["y_size"]:
            return
        memory[fields["sram_base"] : fields["sram_base"] + width * height] = 0
        for y in range(fields["y_size"]):
            for x in range(fields["x_size"]):
                begin = (fields["dram_base"] + y * fields["x_stride"] + x) * element
                value = self.dram[begin : begin + element].view(dtype or memory.dtype).reshape(memory[0].shape)
                row = (fields["y_pad_0"] + y) * width + fields["x_pad_0"] + x
                memory[fields["sram_base"] + row] = value

    def store(self, fields: Mapping[str, int]) -> None:
        acc = self.memories["acc"]
        size = acc[0].size
        for y in range(fields["y_size"]):
            for x in range(fields["x_size"]):
                begin = (fields["dram_base"] + y * fields["x_stride"] + x) * size
                value = acc[fields["sram_base"] + y * fields["x_size"] + x]
                self.dram[begin : begin + size] = (value & 0xFF).astype(np.uint8).reshape(-1)

    def run(self, name: str, fields: Mapping[str, int]) -> None:
        """One instruction, by the name that the accelerator document gives it."""
        if name == "load_acc_8bit":
            self.load("acc", fields, np.int8)
        elif name.startswith("load"):
            self.load(name.removeprefix("load_"), fields)
        elif name in ("store_out", "gemm", "alu"):
            getattr(self, name.removesuffix("_out"))(fields)

    def _steps(self, fields: Mapping[str, int]):
        for i in range(fields["iter_out"]):
            for j in range(fields["iter_in"]):
                for u in range(fields["uop_bgn"], fields["uop_end"]):
                    word = int(self.memories["uop"][u, 0])
                    index = {}
                    for name, (lsb, bits) in self.field_bits.items():
                        kind = name.removesuffix("_idx")
                        steps = i * fields.get(f"{kind}_factor_out", 0) + j * fields.get(f"{kind}_factor_in", 0)
                        index[kind] = (word >> lsb & ((1 << bits) - 1)) + steps
                    yield index

    def gemm(self, fields: Mapping[str, int]) -> None:
        acc, inp, wgt = (self.memories[name] for name in ("acc", "inp", "wgt"))
        for at in self._steps(fields):
            if fields["reset_reg"]:
                acc[at["dst"]] = 0
            else:
                acc[at["dst"]] += inp[at["src"]].astype(np.int32) @ wgt[at["wgt"]].astype(np.int32).T

    def alu(self, fields: Mapping[str, int]) -> None:
        acc = self.memories["acc"]
        for at in self._steps(fields):
            first = at[self.immediate_with] if fields["use_imm"] else at["dst"]
            x = acc[first].astype(np.int64)
            y = np.full_like(x, fields["imm"]) if fields["use_imm"] else acc[at["src"]].astype(np.int64)
            acc[at["dst"]] = self._operate(fields["alu_opcode"], x, y).astype(np.uint32).view(np.int32)

    @staticmethod
    def _operate(opcode: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if opcode == 3:
            return np.where(y >= 0, x >> (y & 31), x << (-y & 31)) & 0xFFFFFFFF
        return {0: np.minimum, 1: np.maximum, 2: np.add, 4: np.multiply}[opcode](x, y) & 0xFFFFFFFF
