"""Golden runs as directories of parts, as somebody else's tool would write them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.programs.golden import FOLDER

ACCELERATOR = {
    "TARGET": "sim", "HW_VER": "0.0.2", "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5, "LOG_BATCH": 0,
    "LOG_BLOCK": 4, "LOG_UOP_BUFF_SIZE": 15, "LOG_INP_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 18, "LOG_ACC_BUFF_SIZE": 17,
}  # fmt: skip


def write_parts(
    directory: Path,
    words: np.ndarray,
    dram: dict[int, bytes],
    expected: dict[int, bytes],
    *,
    tokens: dict[str, int] | None = None,
    accelerator: Any = None,
) -> Path:
    """``dram`` and ``expected`` are contents by address."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "instructions.bin").write_bytes(words.astype("<u8").tobytes())
    document: dict[str, Any] = {"accelerator": accelerator or ACCELERATOR, "initial_tokens": tokens or {}}
    for kind, contents in (("dram", dram), ("expected", expected)):
        document[kind] = [{"address": address, "file": f"{kind}{address:x}.bin"} for address in contents]
        for address, data in contents.items():
            (directory / f"{kind}{address:x}.bin").write_bytes(data)
    (directory / "program.json").write_text(json.dumps(document))
    return directory


def golden_parts(name: str, directory: Path, tokens: dict[str, int] | None = None) -> Path:
    """A run of the golden folder; what follows each other in DRAM is one file."""
    run = np.load(FOLDER / "runs" / f"{name}.npz")
    before, after = (
        joined(run[f"{kind}_idx"], run[f"{kind}_pages"], int(run["page_bytes"])) for kind in ("pre", "post")
    )
    return write_parts(directory, run["insn"].view(np.uint64), before, after, tokens=tokens)


def joined(index: np.ndarray, pages: np.ndarray, size: int) -> dict[int, bytes]:
    contents: dict[int, bytes] = {}
    start, following = -1, -1
    for number, page in sorted(zip(index.tolist(), pages, strict=True), key=lambda pair: pair[0]):
        address = (number + 1) * size
        if address != following:
            start = address
            contents[start] = b""
        contents[start] += page.tobytes()
        following = address + size
    return contents
