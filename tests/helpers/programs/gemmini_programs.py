"""Random streams of primitive instructions that stay within the memories."""

import numpy as np

ACC, ADD, FULL, GARBAGE = 1 << 31, 1 << 30, 1 << 29, 0xFFFFFFFF
DRAM_BYTES = 1 << 14
ROWS = 64  # of each memory that a program uses
_SCALES = (1.0, 0.5, 0.037, 1.5, -0.75, 3.0)


def word(rows: int, columns: int, address: int) -> int:
    return rows << 48 | columns << 32 | address


def as_bits(scale: float) -> int:
    return int(np.array([scale], np.float32).view(np.uint32)[0])


class Writer:
    """Draws instructions; keeps the configuration that later draws must respect."""

    def __init__(self, seed: int, dim: int) -> None:
        self.random = np.random.default_rng(seed)
        self.dim, self.words = dim, []
        self.loads = [(64, dim, False, 1)] * 3
        self.store_stride, self.pool = 64, False
        for which in range(3):
            self.config_ld(which)
        self.config_st()
        self.config_ex()

    def pick(self, low: int, high: int) -> int:
        """A number from low to high, both possible."""
        return int(self.random.integers(low, high + 1))

    def scale(self) -> int:
        return as_bits(_SCALES[self.pick(0, len(_SCALES) - 1)])

    def config_ld(self, which: int) -> None:
        shrunk, pixels = self.pick(0, 1), self.pick(1, 3) if self.pick(0, 3) == 0 else 1
        stride, block = self.pick(0, 96), self.pick(1, 8)
        self.loads[which] = (stride, block, bool(shrunk), pixels)
        self.add(0, self.scale() << 32 | block << 16 | pixels << 8 | which << 3 | shrunk << 2 | 1, stride)

    def config_st(self) -> None:
        self.store_stride, self.pool = self.pick(0, 128), self.pick(0, 4) == 0
        rs1 = self.pick(0, 1) << 2 | 2
        if self.pool:
            rs1 |= self.pick(1, 3) << 4 | self.pick(1, 3) << 6 | self.pick(0, 2) << 8 | self.pick(0, 2) << 10
            rs1 |= self.pick(1, 5) << 24 | self.pick(1, 4) << 32 | self.pick(1, 4) << 40
            rs1 |= self.pick(1, 6) << 48 | self.pick(1, 6) << 56
        self.add(0, rs1, (GARBAGE if self.pick(0, 5) == 0 else self.scale()) << 32 | self.store_stride)

    def config_ex(self) -> None:
        ws, a, b = self.pick(0, 1), self.pick(0, 1), self.pick(0, 1)
        b = 0 if b and ws == a else b
        strides = (self.pick(1, 2) << 16, self.pick(1, 2) << 48)
        only = self.pick(0, 5) == 0
        rs1 = strides[0] | b << 9 | a << 8 | only << 7 | self.pick(0, 1) << 3 | ws << 2
        self.add(0, rs1, strides[1] | self.pick(0, 9))

    def add(self, funct: int, rs1: int, rs2: int) -> None:
        self.words.append((funct, rs1, rs2))

    def mvin(self) -> None:
        which = self.pick(0, 2)
        _, _, shrunk, pixels = self.loads[which]
        accumulator = self.pick(0, 1)
        widest = max(16 if accumulator and not shrunk else 64, self.dim)
        columns = self.pick(1, self.dim // pixels if pixels > 1 else widest)
        flags = accumulator * (ACC | self.pick(0, 1) * ADD)
        address = 0 if self.pick(0, 7) == 0 else self.pick(1, DRAM_BYTES // 2)
        target = self.pick(0, ROWS // 4)
        self.add((2, 1, 14)[which], address, word(self.pick(1, self.dim), columns, flags | target))

    def mvout(self) -> None:
        accumulator = self.pick(0, 1)
        flags = accumulator * (ACC | (not self.pool) * self.pick(0, 1) * FULL)
        columns = self.pick(1, self.dim if self.pool or flags & FULL else 2 * self.dim)
        self.add(
            3, self.pick(1, DRAM_BYTES // 4), word(self.pick(1, self.dim), columns, flags | self.pick(0, ROWS // 4))
        )

    def operand(self) -> int:
        address = GARBAGE if self.pick(0, 4) == 0 else self.pick(0, ROWS)
        return word(self.pick(1, self.dim), self.pick(1, self.dim), address)

    def product(self) -> None:
        address = self.pick(0, ROWS) | (ACC | self.pick(0, 1) * ADD) * self.pick(0, 1)
        size = (self.dim, self.dim) if self.pick(0, 1) else (self.pick(1, self.dim), self.pick(1, self.dim))
        self.add(6, self.operand(), word(*size, GARBAGE if self.pick(0, 9) == 0 else address))
        self.add(4 if self.pick(0, 2) else 5, self.operand(), self.operand())

    def draw(self, count: int) -> np.ndarray:
        kinds = (self.mvin, self.mvin, self.mvout, self.product, self.product, self.config_ex, self.config_st)
        for _ in range(count):
            kinds[self.pick(0, len(kinds) - 1)]()
            if self.pick(0, 7) == 0:
                self.config_ld(self.pick(0, 2))
        return np.array(self.words, np.uint64)
