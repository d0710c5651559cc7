"""The recorded runs of the golden folder: instructions, what they read first, and what they wrote."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[4] / "shared" / "golden" / "gemmini"
needs_gemmini_golden = pytest.mark.skipif(not FOLDER.is_dir(), reason="the golden folder is not there")
_PAGE = 4096
_HIGH = 1 << 32  # above are stacks, which move to _STACK
_STACK = 1 << 24
_ADDRESSES = {1: (1,), 2: (1,), 3: (1,), 14: (1,), 10: (1, 2), 11: (1, 2), 20: (1, 2), 21: (1, 2)}  # operands by funct


@dataclass
class Step:
    """One instruction, the bytes that are new in host memory before it, and those that it writes."""

    words: np.ndarray
    host: list[tuple[int, bytes]]
    written: list[tuple[int, bytes]]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.golden"))


def _lowered(steps: list[Step]) -> list[Step]:
    """The same run with the stack moved down, so that an array can be host memory."""
    high = [at for step in steps for at, _ in step.host + step.written if at >= _HIGH]
    if not high:
        return steps
    down = (min(high) & -_PAGE) - _STACK

    def moved(runs: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        return [(at - down if at >= _HIGH else at, data) for at, data in runs]

    for step in steps:
        step.host, step.written = moved(step.host), moved(step.written)
        for operand in _ADDRESSES.get(int(step.words[0, 0]), ()):
            if step.words[0, operand] >= _HIGH:
                step.words[0, operand] -= np.uint64(down)
    return steps


def read(name: str) -> list[Step]:
    """The steps of one file."""
    steps: list[Step] = []
    host: list[tuple[int, bytes]] = []
    for line in (FOLDER / f"{name}.golden").read_text().splitlines():
        kind, *rest = line.split()
        if kind == "I":
            words = np.array([[int(rest[0]), int(rest[1], 16), int(rest[2], 16)]], np.uint64)
            steps.append(Step(words, host, []))
            host = []
        else:
            target = host if kind == "H" else steps[-1].written
            target.append((int(rest[0], 16), bytes.fromhex(rest[1])))
    return _lowered(steps)


def dram_for(steps: list[Step]) -> np.ndarray:
    """Host memory from address 0 to behind the last that is named."""
    last = max((at + len(data) for step in steps for at, data in step.host + step.written), default=_PAGE)
    return np.zeros(last + _PAGE, np.uint8)


def trace(name: str) -> np.ndarray:
    """A stream (n, 3) whose cycles were read on an FPGA."""
    lines = (FOLDER / "fpga" / f"{name}.trace").read_text().split("\n")
    return np.array([[int(f), int(a, 16), int(b, 16)] for f, a, b in map(str.split, filter(None, lines))], np.uint64)
