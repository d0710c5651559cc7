"""Gemmini's primitive instructions in plain numpy, written from the description of the instruction set."""

from dataclasses import dataclass, field

import numpy as np

GARBAGE = 0xFFFFFFFF


def bits(word: int, high: int, low: int) -> int:
    return (word >> low) & ((1 << (high - low + 1)) - 1)


def as_float(word: int) -> np.float32:
    return np.array([word], np.uint32).view(np.float32)[0]


def requantize(values: np.ndarray, scale: np.float32) -> np.ndarray:
    """int8 of values times scale in fp32, ties to even."""
    product = values.astype(np.float32) * scale
    return np.clip(np.rint(product), -128, 127).astype(np.int64)


def rounding_shift(values: np.ndarray, shift: int) -> np.ndarray:
    """values / 2**shift to the nearest integer, ties to even; exact in doubles, which hold an int32."""
    return np.rint(values.astype(np.float64) / 2.0**shift).astype(np.int64)


@dataclass
class Load:
    stride: int = 0
    block: int = 0
    shrunk: bool = False
    pixels: int = 1
    scale: np.float32 = field(default_factory=lambda: np.float32(1))


@dataclass
class Reference:
    """One accelerator of ``dim``; ``dram`` is bytes and is changed in place."""

    dim: int
    scratchpad: np.ndarray
    accumulator: np.ndarray
    dram: np.ndarray
    loads: list[Load] = field(default_factory=lambda: [Load(), Load(), Load()])

    def __post_init__(self) -> None:
        self.mesh = np.zeros((self.dim, self.dim), np.int64)
        self.ws, self.relu_out, self.shift, self.at, self.bt, self.a_stride, self.c_stride = True, False, 0, 0, 0, 1, 1
        self.store_stride, self.relu, self.store_scale, self.pool = 0, False, np.float32(1), None
        self.stationary, self.out = GARBAGE, GARBAGE

    def run(self, words: np.ndarray) -> None:
        for funct, rs1, rs2 in words.tolist():
            if funct == 0:
                (self.config_ex, self.config_ld, self.config_st)[rs1 & 3](rs1, rs2)
            elif funct in (1, 2, 14):
                self.mvin(self.loads[{2: 0, 1: 1, 14: 2}[funct]], rs1, rs2)
            elif funct == 3:
                self.mvout(rs1, rs2)
            elif funct == 6:
                self.stationary, self.out = rs1, rs2
            elif funct in (4, 5):
                self.compute(funct == 4, rs1, rs2)

    def config_ex(self, rs1: int, rs2: int) -> None:
        self.a_stride, self.c_stride = bits(rs1, 31, 16), bits(rs2, 63, 48)
        if not bits(rs1, 7, 7):
            self.ws, self.relu_out, self.shift = bool(bits(rs1, 2, 2)), bits(rs1, 4, 3) == 1, bits(rs2, 31, 0)
            self.at, self.bt = bits(rs1, 8, 8), bits(rs1, 9, 9)

    def config_ld(self, rs1: int, rs2: int) -> None:
        self.loads[bits(rs1, 4, 3)] = Load(
            rs2, bits(rs1, 31, 16), bool(bits(rs1, 2, 2)), max(bits(rs1, 15, 8), 1), as_float(bits(rs1, 63, 32))
        )

    def config_st(self, rs1: int, rs2: int) -> None:
        self.store_stride, self.relu = bits(rs2, 31, 0), bits(rs1, 3, 2) == 1
        if bits(rs2, 63, 32) != GARBAGE:
            self.store_scale = as_float(bits(rs2, 63, 32))
        names = {"size": (7, 6), "up": (9, 8), "left": (11, 10), "width": (31, 24), "rows": (39, 32), "cols": (47, 40)}
        names |= {"in_rows": (55, 48), "in_cols": (63, 56), "stride": (5, 4)}
        pool = {name: bits(rs1, *place) for name, place in names.items()}
        self.pool = pool if pool["stride"] else None

    def mvin(self, load: Load, rs1: int, rs2: int) -> None:
        rows, columns, acc = bits(rs2, 63, 48), bits(rs2, 47, 32), bits(rs2, 31, 31)
        base = bits(rs2, 28, 0)
        dtype = np.dtype("<i4") if acc and not load.shrunk else np.dtype("i1")
        memory = self.accumulator if acc else self.scratchpad
        for r in range(rows):
            start = rs1 + r * load.stride
            values = np.zeros(columns, np.int64)
            if rs1:
                raw = self.dram[start : start + columns * dtype.itemsize]
                values = np.frombuffer(raw.tobytes(), dtype).astype(np.int64)
                if dtype.itemsize == 1:
                    values = requantize(values, load.scale)
            for c in range(columns):
                row = base + r + c // self.dim * load.block
                for pixel in range(min(load.pixels, row + 1)):
                    place = (row - pixel, c % self.dim + pixel * columns)
                    old = int(memory[place]) if acc and bits(rs2, 30, 30) else 0
                    memory[place] = np.array(old + values[c]).astype(np.int64).astype(memory.dtype)

    def narrow(self, acc: int, values: np.ndarray) -> np.ndarray:
        """What leaves as int8."""
        if not acc:
            return values.astype(np.int64)
        scaled = requantize(values, self.store_scale)
        return np.maximum(scaled, 0) if self.relu else scaled

    def put(self, address: int, values: np.ndarray) -> None:
        raw = np.frombuffer(values.tobytes(), np.uint8)
        self.dram[address : address + len(raw)] = raw

    def mvout(self, rs1: int, rs2: int) -> None:
        rows, columns, acc, full = bits(rs2, 63, 48), bits(rs2, 47, 32), bits(rs2, 31, 31), bits(rs2, 29, 29)
        base, memory = bits(rs2, 25, 0), self.accumulator if bits(rs2, 31, 31) else self.scratchpad
        if self.pool:
            self.mvout_pooled(rs1, base, columns, acc, memory)
            return
        for r in range(rows):
            blocks = [memory[base + r + b * self.dim] for b in range(-(-columns // self.dim))]
            values = np.concatenate([*blocks, np.zeros(0, memory.dtype)])[:columns]
            address = rs1 + r * self.store_stride
            if acc and full:
                self.put(address, values.astype("<i4"))
            else:
                self.put(address, self.narrow(acc, values).astype(np.int8))

    def mvout_pooled(self, rs1: int, base: int, columns: int, acc: int, memory: np.ndarray) -> None:
        p = self.pool
        assert p is not None
        for prow, pcol in np.ndindex(p["rows"], p["cols"]):
            best = np.full(columns, -128, np.int64)
            for wr, wc in np.ndindex(p["size"], p["size"]):
                r, c = prow * p["stride"] + wr - p["up"], pcol * p["stride"] + wc - p["left"]
                inside = 0 <= r < p["in_rows"] and 0 <= c < p["in_cols"]
                there = memory[base + r * p["in_cols"] + c, :columns] if inside else None
                best = np.maximum(best, 0 if there is None else self.narrow(acc, there))
            self.put(rs1 + (prow * p["width"] + pcol) * self.store_stride, best.astype(np.int8))

    def tile(self, word: int, transposed: int, stride: int = 1) -> np.ndarray:
        """An operand (dim, dim), zero outside of its rows and columns."""
        rows, columns, address = bits(word, 63, 48), bits(word, 47, 32), bits(word, 31, 0)
        out = np.zeros((self.dim, self.dim), np.int64)
        if address != GARBAGE:
            for r, c in np.ndindex(rows, columns):
                place = (address + stride * c, r) if transposed else (address + stride * r, c)
                out[r, c] = self.scratchpad[place]
        return out

    def compute(self, preloaded: bool, rs1: int, rs2: int) -> None:
        if preloaded:
            self.mesh = self.tile(self.stationary, self.bt if self.ws else 0)
        left = self.tile(rs1, self.at, self.a_stride)
        if self.ws:
            result = self.tile(rs2, 0) + left @ self.mesh
        else:
            self.mesh = (self.mesh + left @ self.tile(rs2, self.bt)).astype(np.int32).astype(np.int64)
            result = self.mesh
        address, rows, columns = bits(self.out, 31, 0), bits(self.out, 63, 48), bits(self.out, 47, 32)
        if address == GARBAGE:
            return
        small = np.clip(rounding_shift(result.astype(np.int32), 0 if self.ws else self.shift), -128, 127)
        for r in range(rows):
            row = bits(address, 28, 0) + r * self.c_stride
            if not bits(address, 31, 31):
                self.scratchpad[row, :columns] = (
                    np.maximum(small, 0)[r, :columns] if self.relu_out else small[r, :columns]
                )
            else:
                old = self.accumulator[row, :columns].astype(np.int64) if bits(address, 30, 30) else 0
                self.accumulator[row, :columns] = (old + result[r, :columns]).astype(np.int32)
