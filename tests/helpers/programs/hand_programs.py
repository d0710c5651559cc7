"""Programs as parts: one written by hand, and third parties' recorded runs."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from accel.catalog.load_accelerator import load_accelerator
from tests.helpers.programs.golden import FOLDER
from tests.helpers.programs.streams import stream
from tests.reference.encode import encode

Parts = dict[str, bytes]
X, MICROOPS, Y = 0, 4096, 8192  # bytes in DRAM


def instructions(*, tokens: bool = True) -> list[tuple[str, dict[str, int]]]:
    """y = x + 1 on four vectors; without tokens the store may run before the sum is there."""
    four = {"y_size": 1, "x_size": 4, "x_stride": 4}
    pass_ = {"uop_end": 1, "iter_out": 1, "iter_in": 4, "dst_factor_in": 1, "src_factor_in": 1}
    return [
        ("load_uop", four | {"dram_base": MICROOPS // 4, "x_size": 1}),
        ("load_acc", four),
        ("alu", pass_ | {"alu_opcode": 2, "use_imm": 1, "imm": 1, "push_next": int(tokens)}),
        ("store_out", four | {"dram_base": Y // 16, "pop_prev": int(tokens), "push_prev": 1}),
        ("load_uop", {"pop_next": 1}),
        ("finish", {}),
    ]


def words(listed: list[tuple[str, dict[str, int]]]) -> bytes:
    return encode(stream(load_accelerator("vta"), listed)).astype("<u8").tobytes()


def addition(
    *, tokens: bool = True, listed: list[tuple[str, dict[str, int]]] | None = None, **document: object
) -> Parts:
    """The parts of a program that adds one; ``document`` changes keys of its ``program.json``."""
    x = np.arange(64, dtype="<i4").reshape(4, 16)
    described = {
        "accelerator": "vta",
        "dram": [{"address": X, "file": "x.bin"}, {"address": MICROOPS, "file": "microops.bin"}],
        "expected": [{"address": Y, "file": "y.bin"}],
        "initial_tokens": {},
    }
    return {
        "program.json": json.dumps(described | document).encode(),
        "instructions.bin": words(instructions(tokens=tokens) if listed is None else listed),
        "x.bin": x.tobytes(),
        "microops.bin": bytes(4),
        "y.bin": (x + 1).astype(np.int8).tobytes(),
    }


def recorded(name: str) -> Parts:
    """The parts of one of the recorded runs; DRAM goes by pages."""
    with np.load(FOLDER / "runs" / f"{name}.npz") as run:
        page = int(run["page_bytes"])
        pages = {"dram": (run["pre_idx"], run["pre_pages"]), "expected": (run["post_idx"], run["post_pages"])}
        parts = {"instructions.bin": run["insn"].tobytes()}
    document: dict[str, object] = {"accelerator": "vta", "initial_tokens": {}}
    for key, (indices, contents) in pages.items():
        files = {f"{key}-{index}.bin": content.tobytes() for index, content in zip(indices, contents, strict=True)}
        document[key] = [
            {"address": (int(index) + 1) * page, "file": file} for index, file in zip(indices, files, strict=True)
        ]
        parts |= files
    return {"program.json": json.dumps(document).encode()} | parts


def zipped(parts: Parts, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def written(parts: Parts, directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    for name, data in parts.items():
        (directory / name).write_bytes(data)
    return directory
