"""Random machines as documents: a contraction, and around it what designs differ in.

Tiles, depths, units and how they wait for each other, how accumulators begin and leave, hardware loops, copies.
"""

import random
from typing import Any, Literal

Document = dict[str, Any]

_STEPS = ("X{} = X{} + Y{}", "X{} = max(X{}, imm)", "X{} = min(X{}, imm)", "X{} = X{} >> imm", "X{} = X{} + imm")
_STORES: dict[str, tuple[str, ...]] = {
    "low": (),
    "scale": ("i8(clip(rint(f32(sram{}) * scale), -128, 127))", "i8(clip(rint(f32(sram{}) * scale), 0, 127))"),
    "shift": ("i8(clip(sram{} >> shift, -128, 127))",),
    "round": ("i8(clip((sram{} + (1 << shift - 1)) >> shift, -128, 127))",),
    "relu": ("i8(clip(sram{} >> shift, -128, 127))", "relu(i8(clip(sram{} >> shift, -128, 127)))"),
    "factor": ("i8(clip((sram{} * imm) >> shift, -128, 127))",),
    "wide": ("i8(clip((W(sram{}) * W(imm) + (W(1) << shift - 1)) >> shift, -128, 127))",),
    "wide int32": ("i8(clip(i32((W(sram{}) * imm + (W(1) << shift - 1)) >> shift), -128, 127))",),
}
_FUSED = (
    "clip((X{} * imm) >> shift, low, high)",
    "min(max((X{} * imm + (1 << shift - 1)) >> shift, -128), 127)",
    "(X{} * imm) >> shift",
)
_WIDELY = (
    "i32((W(X{}) * W(M{}) + (W(1) << shift - 1)) >> shift)",
    "i32(clip((W(X{}) * W(M{}) + (W(1) << shift - 1)) >> shift, -128, 127))",
    "clip(i32(W(X{}) * W(M{}) >> shift), low, high)",
    "i32((W(X{}) * imm + (W(1) << shift - 1)) >> shift)",
)
"""In wide products, of a type ``W``."""
_WORD = 64


class _Instruction:
    """An instruction whose fields are laid one after the other, none across two words."""

    def __init__(self, document: Document, **keys: Any) -> None:
        self.keys = keys
        self.fields = [{"name": "opcode", "lsb": 0, "bits": 8, "value": len(document["instructions"]) + 1}]
        self.top = 8
        document["instructions"].append(self)

    def field(self, name: str, bits: int, kind: str | None = None) -> str:
        if self.top // _WORD != (self.top + bits - 1) // _WORD:
            self.top = -(-self.top // _WORD) * _WORD
        self.fields.append({"name": name, "lsb": self.top, "bits": bits} | ({"type": kind} if kind else {}))
        self.top += bits
        return name

    def document(self) -> Document:
        return {**self.keys, "fields": self.fields}


class _Machine:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rows, self.n, self.k = rng.choice([1, 1, 1, 2, 4]), rng.choice([1, 4, 8, 16]), rng.choice([1, 4, 8, 16])
        # accumulators are whole tiles, or rows of them that instructions take several of
        self.by_rows = self.rows > 1 and rng.random() < 0.5
        self.sync = rng.choice(["tokens", "tokens", "hazards", "in_order"])
        self.unit = self._units()
        self.depths = {
            "a": rng.choice([1, 2, 4, 16, 64, 300]),
            "b": rng.choice([1, 2, 4, 9, 32, 200]),
            "c": rng.choice([1, 2, 3, 4, 6, 16, 64]),
        }
        self.made: Document = {"instructions": []}
        self.products = random.Random(repr(rng.getstate()[1][2:4]))  # beside what other seeds draw
        self.product = self.products.choice(["i64", "i64", "i48"])
        self.sums = random.Random(repr(rng.getstate()[1][:2])).choice(["int32", "int32", "int48", "int64"])

    def _units(self) -> dict[str, str]:
        """The unit of each kind of instruction."""
        store = self.rng.choice(["st", "st", "ld"])
        bias = self.rng.choice(["ld", "mm"])
        alu = self.rng.choice(["mm", "mm", "mm", "alu"]) if self.sync != "tokens" else "mm"
        return {"load": "ld", "bias": bias, "mm": "mm", "alu": alu, "store": store}

    def document(self) -> Document:
        rng = self.rng
        self._copy("load_a", "a", "load", self.data_type, pads=rng.random() < 0.3)
        self._copy("load_b", "b", "load", "int8")
        zero = rng.random() < 0.6
        if not zero or rng.random() < 0.7:
            self._copy("load_c", "c", "load", "int32")
        if rng.random() < 0.4:
            self._copy("load_c8", "c", "load", "int8")
        self._contraction(zero=zero)
        leaves = rng.choice(["low", "scale", "shift", "round", "relu", "factor", None])
        if leaves == "low" or rng.random() < 0.4:
            self._steps()
        if self.sums == "int32" and self.products.random() < 0.5:
            self._requantisation(self.products, _WIDELY)
            leaves = "low"
        elif self.sums == "int32" and self.products.random() < 0.4:
            leaves = self.products.choice(["wide", "wide int32"])
        if rng.random() < 0.3:
            self._requantisation(rng)
        if leaves is None or rng.random() < 0.5:
            self._copy("store_c", "c", "store", "int32")
        if leaves is not None:
            self._copy("store_8", "c", "store", "int8", leaves)
        return self._whole()

    @property
    def data_type(self) -> str:
        if not hasattr(self, "_data_type"):
            self._data_type = self.rng.choice(["int8", "int8", "int8", "uint8"])
        return self._data_type

    def _bits(self, memory: str) -> int:
        return max(1, (self.depths[memory] - 1).bit_length())

    def _copy(
        self,
        name: str,
        memory: str,
        direction: Literal["load", "store"],
        dtype: str,
        leaves: str = "low",
        *,
        pads: bool = False,
    ) -> None:
        kind = "store" if direction == "store" else "bias" if memory == "c" else "load"
        made = _Instruction(self.made, name=name, kind="copy", pragma=f"pragma_{direction}", unit=self.unit[kind])
        columns, rows = pads or self.rng.random() < 0.8, pads or self.rng.random() < 0.8
        fields = {"sram": made.field("sram", self._bits(memory)), "dram": made.field("dram", 32)}
        if rows:
            fields |= {"rows": made.field("rows", 12), "row_stride": made.field("row_stride", 32)}
        if columns:
            fields["columns"] = made.field("columns", 12)
        if pads:
            fields |= {side: made.field(side, 4) for side in ("pad_top", "pad_bottom", "pad_left", "pad_right")}
        made.keys |= {"direction": direction, "memory": memory, "dram_dtype": dtype, "copy_fields": fields}
        made.keys |= {"dram_unit": self.rng.choice(["byte", "element"]), "cycles": "4 + ceil(bytes / bus_bytes)"}
        does = _STORES[leaves]
        if does:
            if leaves == "scale":
                made.field("scale", 32, "float32")
            else:
                made.field("shift", 6 if "W" in does[0] else 5)
            if "imm" in does[0]:
                made.field("imm", self.products.choice([32, 24, 17]) if "W" in does[0] else 16, "signed")
            made.field("mode", 1)
            at = self._index("ij" if self.rows > 1 and not self.by_rows else "j")
            made.keys["operations"] = [
                {
                    "name": f"s{mode}",
                    "when": {"mode": mode},
                    "does": f"dram{at} = {value.format(at).replace('W', self.product)}",
                }
                for mode, value in enumerate(does)
            ]

    def _index(self, axes: str) -> str:
        return f"[{', '.join(axes)}]"

    def _contraction(self, *, zero: bool) -> None:
        made = _Instruction(self.made, name="contract", kind="compute", pragma="pragma_contract", unit="mm")
        operands = {"A": "a", "B": "b", "C": "c"}
        made.keys["operands"] = {
            name: {"memory": memory, "address": made.field(f"{memory}_at", self._bits(memory))}
            for name, memory in operands.items()
        }
        if self.by_rows:
            made.keys["operands"]["C"]["shape"] = [self.rows, self.n]
        rows = "i" if self.rows > 1 else ""
        self.turned = self.rng.random() < 0.3
        wide = self.sums.replace("int", "i")
        target, weights = self._index(rows + "j"), self._index("jk" if self.turned else "kj")
        does = [f"C{target} += {wide}(A{self._index(rows + 'k')}) * {wide}(B{weights})"] + [f"C{target} = 0"] * zero
        made.field("mode", 2)
        made.keys["operations"] = [
            {"name": f"o{mode}", "when": {"mode": mode}, "does": text} for mode, text in enumerate(does)
        ]
        loops = self.rng.choice([0, 1, 2])
        made.keys["loops"] = [
            {
                "extent": made.field(f"n{loop}", 10),
                "factors": {name: made.field(f"{memory}_by{loop}", 8) for name, memory in operands.items()},
            }
            for loop in range(loops)
        ]
        made.keys["cycles"] = " * ".join(f"n{loop}" for loop in range(loops)) or "2"

    def _steps(self) -> None:
        made = _Instruction(self.made, name="alu", kind="compute", pragma="pragma_alu", unit=self.unit["alu"])
        at = self._accumulators(made, "XY")
        made.field("mode", 3)
        made.field("imm", 32, "signed")
        made.keys["operations"] = [
            {"name": f"o{mode}", "when": {"mode": mode}, "does": text.replace("{}", at)}
            for mode, text in enumerate(_STEPS)
        ]
        factors = {name: made.field(f"{name.lower()}_by", 8) for name in "XY"}
        made.keys |= {"loops": [{"extent": made.field("n", 10), "factors": factors}], "cycles": "n"}

    def _requantisation(self, rng: random.Random, ways: tuple[str, ...] = _FUSED) -> None:
        """A vector unit that multiplies, shifts and clips at once."""
        name, way = f"requantise{len(self.made['instructions'])}", rng.choice(ways)
        made = _Instruction(self.made, name=name, kind="compute", pragma=f"pragma_{name}", unit=self.unit["alu"])
        at = self._accumulators(made, "XM" if "M" in way else "X")
        for name, bits, kind in (
            ("imm", 16, "signed"),
            ("shift", 6 if "W" in way else 5, None),
            ("low", 9, "signed"),
            ("high", 9, "signed"),
        ):
            made.field(name, bits, kind)
        does = f"X{at} = {way.replace('{}', at).replace('W', self.product)}"
        made.keys |= {"operations": [{"name": "o", "does": does}], "cycles": "3"}

    def _accumulators(self, made: _Instruction, names: str) -> str:
        """Operands that are as many accumulators as the unit is high, and their index."""
        height = self.rng.choice([0, 0, 1, 2, 3, 4, 8]) if self.rows == 1 or self.by_rows else 0
        shape = {"shape": [height, self.n]} if height and height <= self.depths["c"] else {}
        made.keys["operands"] = {
            name: {"memory": "c", "address": made.field(name.lower(), self._bits("c"))} | shape for name in names
        }
        return self._index("ij" if shape or (self.rows > 1 and not self.by_rows) else "j")

    def _tokens(self) -> Document:
        finish = _Instruction(self.made, name="finish", kind="finish", unit="mm")
        units = {made.keys["unit"] for made in self.made["instructions"]}
        for made in self.made["instructions"]:
            others = {"mm"} if made.keys["unit"] != "mm" else units - {"mm"}
            made.keys["tokens"] = {
                way: {other: made.field(f"{way}_{other}", 1) for other in sorted(others)} for way in ("pop", "push")
            }
        assert finish.top
        return {"kind": "tokens", "limit": self.rng.choice([1, 2, 3, 255])}

    def _whole(self) -> Document:
        sync = self._tokens() if self.sync == "tokens" else {"kind": self.sync}
        m, n, k = [self.rows][: self.rows > 1], self.n, self.k
        shapes = {"a": [*m, k], "b": [n, k] if self.turned else [k, n], "c": [n] if self.by_rows else [*m, n]}
        types = {"a": self.data_type, "b": "int8", "c": self.sums}
        instructions = [made.document() for made in self.made["instructions"]]
        return {
            "schema_version": 2,
            "name": "random",
            "title": "Random machine",
            "family": "explicit",
            "clock_mhz": 500.0,
            "word_bits": 256,
            "memories": [
                {"name": name, "scope": f"local.{name}", "dtype": types[name], "shape": shapes[name], "depth": depth}
                for name, depth in self.depths.items()
            ],
            "units": list(dict.fromkeys(instruction["unit"] for instruction in instructions)),
            "synchronisation": sync,
            "dram": {"bus_bytes": 16, "read_latency": 20, "alignment_bytes": self.rng.choice([64, 256])},
            "instructions": instructions,
        }


def random_machine(seed: int) -> Document:
    """The document of a machine; equal seeds give equal machines. Not all can work: a check refuses some."""
    return _Machine(random.Random(seed)).document()
