"""Loads and stores of the same DRAM, by hand: what a fence, and what the reservation station, puts into order."""

from dataclasses import replace

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.gemmini.gemmini_family import FAMILY
from accel.isa.hazard_findings import Race

GEMMINI = load_accelerator("gemmini")
ONE, ACC, NONE = 0x3F800000, 1 << 31, 0xFFFFFFFF
CONFIG = [(0, 1 << 16 | 4, 1 << 48), (0, ONE << 32 | 16 << 16 | 1 << 8 | 1, 16), (0, 2, ONE << 32 | 16)]
X, Y = 4096, 8192
FENCE = 127, 0, 0


def tile(rows, columns, address):
    return rows << 48 | columns << 32 | address


def load(address, row):
    return 2, address, tile(16, 16, row)


def store(address, row):
    return 3, address, tile(16, 16, row)


PRODUCT = [(6, tile(16, 16, 32), tile(16, 16, ACC)), (4, tile(16, 16, 0), NONE)]
CASES = {
    "a load behind a store": ([load(X, 0), store(Y, 0), load(Y, 64)], [Race(4, 5, "dram", Y, Y + 256)]),
    "of the rows that it stored": ([load(X, 0), store(Y, 0), load(Y, 0)], [Race(4, 5, "dram", Y, Y + 256)]),
    "of other bytes": ([load(X, 0), store(Y, 0), load(Y + 256, 64)], []),
    "of some": ([load(X, 0), store(Y, 0), load(Y + 248, 64)], [Race(4, 5, "dram", Y + 248, Y + 256)]),
    "behind a fence": ([load(X, 0), store(Y, 0), FENCE, load(Y, 64)], []),
    "a store of what it waits for": ([load(X, 0), store(X, 0)], []),
    "a store of something else": ([load(X, 0), load(Y, 16), store(X, 16)], [Race(3, 5, "dram", X, X + 256)]),
    "a store of the product": ([load(X, 0), load(Y, 32), *PRODUCT, store(X, ACC), store(Y, ACC)], []),
    "of a product before the load": (
        [load(X, 0), load(X, 32), *PRODUCT, load(Y, 64), store(Y, ACC)],
        [Race(7, 8, "dram", Y, Y + 256)],
    ),
    "two stores": ([load(X, 0), store(Y, 0), store(Y, 0)], []),
}


@pytest.mark.parametrize("name", CASES)
def test_races_in_dram(name):
    rows, expected = CASES[name]
    checker = FAMILY.hazard_checker(GEMMINI, {}, 1 << 14)
    decoded = decode(GEMMINI, np.array([*CONFIG, *rows], np.uint64))
    decoded = replace(decoded, context=FAMILY.first_context(GEMMINI, ()))
    assert list(checker.check(decoded, np.zeros(1 << 14, np.uint8)).races) == expected
