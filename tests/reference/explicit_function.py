"""What the small machine of :mod:`documents` computes, in plain numpy: one instruction after the other."""

from typing import Any

import numpy as np

from tests.helpers.documents.explicit_documents import PAD

Fields = dict[str, int]


class Reference:
    """The memories by name, each (depth, *element), and DRAM as bytes."""

    def __init__(self, dram: np.ndarray) -> None:
        self.dram = dram.copy()
        self.memories = {
            "x": np.zeros((12, 2), np.int8),
            "w": np.zeros((8, 2, 2), np.int8),
            "c": np.zeros((10, 2, 2), np.int32),
        }

    def run(self, rows: list[dict[str, Any]]) -> None:
        for given in rows:
            fields = {"rows": 1, "columns": 1, "outer": 1, "inner": 1, "count": 1} | given["fields"]
            if given["op"] == "gemm":
                self._gemm(fields)
            elif given["op"] == "alu":
                self._alu(fields)
            elif given["op"].startswith("load"):
                self._load(given["op"], fields)
            elif given["op"].startswith("store"):
                self._store(given["op"], fields)

    def _load(self, op: str, f: Fields) -> None:
        name, dtype, in_bytes = {
            "load_x": ("x", np.int8, True),
            "load_w": ("w", np.int8, False),
            "load_c": ("c", np.int32, False),
        }[op]
        memory = self.memories[name]
        size = memory[0].size * np.dtype(dtype).itemsize
        unit = 1 if in_bytes else size
        if f["rows"] * f["columns"] == 0:
            return
        tile = np.zeros((f["rows"], f["columns"], *memory.shape[1:]), dtype)
        for r in range(f["rows"]):
            begin = (f.get("dram", 0) + r * f.get("row_stride", 0)) * unit
            tile[r] = self.dram[begin : begin + f["columns"] * size].view(dtype).reshape(tile[r].shape)
        top, bottom, left, right = (f.get(pad, 0) for pad in PAD)
        edges = [(top, bottom), (left, right)] + [(0, 0)] * (tile.ndim - 2)
        tile = np.pad(tile, edges)
        at = f.get("sram", 0)
        memory[at : at + tile.shape[0] * tile.shape[1]] = tile.reshape(-1, *memory.shape[1:])

    def _store(self, op: str, f: Fields) -> None:
        c = self.memories["c"]
        for r in range(f["rows"]):
            at = f.get("sram", 0) + r * f["columns"]
            tile = c[at : at + f["columns"]]
            begin = f.get("dram", 0) + r * f.get("row_stride", 0)
            if op == "store_wide":
                begin *= 16
                moved = tile.astype(np.int32)
            elif f.get("how", 0) == 0:
                scale = np.uint32(f.get("scale", 0)).view(np.float32)
                scaled = np.rint(tile.astype(np.float32) * scale)
                moved = np.clip(scaled, -128, 127).astype(np.int8)
            else:
                moved = tile.astype(np.int8)
            raw = np.frombuffer(moved.tobytes(), np.uint8)
            self.dram[begin : begin + len(raw)] = raw

    def _gemm(self, f: Fields) -> None:
        x, w, c = self.memories["x"], self.memories["w"], self.memories["c"]
        for o in range(f["outer"]):
            for i in range(f["inner"]):
                into = f.get("c", 0) + o * f.get("c_outer", 0)
                if f.get("op", 0) == 1:
                    c[into] = 0
                    continue
                data = f.get("x", 0) + o * f.get("x_outer", 0) + i * f.get("x_inner", 0)
                weights = w[f.get("w", 0) - o + i * f.get("w_inner", 0)].astype(np.int64)
                product = x[data : data + 2].astype(np.int64) @ weights.T
                c[into] = (c[into] + product).astype(np.int32)

    def _alu(self, f: Fields) -> None:
        c, imm = self.memories["c"], f.get("imm", 0)
        for n in range(f["count"]):
            d, s = f.get("d", 0) + n, f.get("s", 0) + n * f.get("s_step", 0)
            old = c[d].astype(np.int64)
            results = {0: old + c[s], 1: np.maximum(old, imm), 2: old >> min(max(imm, 0), 31), 3: c[s].astype(np.int64)}
            c[d] = results[f.get("op", 0)].astype(np.int32)
