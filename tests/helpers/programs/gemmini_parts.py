"""Streams and recorded runs as directories of parts, as somebody who has a Gemmini would write them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.helpers.programs.gemmini_vectors import FOLDER

Row = tuple[int, int, int]


def as_text(rows: Iterable[Row]) -> str:
    return "".join(f"{funct} {rs1:016x} {rs2:016x}\n" for funct, rs1, rs2 in rows)


def write_parts(
    directory: Path,
    rows: Iterable[Row],
    dram: Iterable[tuple[int, int, bytes]] = (),
    expected: Iterable[tuple[int, bytes]] = (),
    **keys: Any,
) -> Path:
    """``dram`` are instruction, address and bytes that the host writes before it; ``expected`` address and bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "instructions.txt").write_text(as_text(rows))
    document: dict[str, Any] = {"accelerator": "gemmini", "dram": [], "expected": []} | keys
    for before, address, data in dram:
        name = f"host{len(document['dram'])}.bin"
        (directory / name).write_bytes(data)
        document["dram"].append({"address": address, "file": name} | ({"before": before} if before else {}))
    for address, data in expected:
        name = f"after{len(document['expected'])}.bin"
        (directory / name).write_bytes(data)
        document["expected"].append({"address": address, "file": name})
    (directory / "program.json").write_text(json.dumps(document))
    return directory


def golden_parts(name: str, directory: Path) -> tuple[Path, int]:
    """A recorded run with the addresses it was recorded at, and how many bytes it must leave.

    What an instruction wrote must be there at the end, unless another or the host wrote there later.
    """
    rows: list[Row] = []
    dram: list[tuple[int, int, bytes]] = []
    after: dict[int, int] = {}
    for line in (FOLDER / f"{name}.golden").read_text().splitlines():
        kind, *rest = line.split()
        if kind == "I":
            rows.append((int(rest[0]), int(rest[1], 16), int(rest[2], 16)))
            continue
        address, data = int(rest[0], 16), bytes.fromhex(rest[1])
        if kind == "H":
            dram.append((len(rows), address, data))
        for at, byte in enumerate(data, address):
            after[at] = byte
            if kind == "H":
                del after[at]
    return write_parts(directory, rows, dram, runs(after)), len(after)


def runs(contents: dict[int, int]) -> list[tuple[int, bytes]]:
    """Bytes by address, joined where they follow each other."""
    found: list[tuple[int, bytearray]] = []
    for address in sorted(contents):
        if not found or found[-1][0] + len(found[-1][1]) != address:
            found.append((address, bytearray()))
        found[-1][1].append(contents[address])
    return [(address, bytes(data)) for address, data in found]
