"""Random machines with a vector unit beside a random contraction: what such units differ in.

Lanes, memories of floats and registers, loops and widths of fields, which operations there are, what copies convert,
DMA engines, a shared bus, how units wait, registers that are views of the memory, copies of up to four extents.
"""

import random

from tests.helpers.documents.random_machines import Document, _Instruction, _Machine

_PAIRS = ("A + B", "A - B", "A * B", "A / B", "max(A, B)", "min(A, B)")
_IMMEDIATES = ("A + imm", "A * imm", "A / imm", "max(A, imm)", "min(A, imm)", "imm - A", "imm", "imm / A")
_FUNCTIONS = (
    *("exp(A)", "log(A)", "sqrt(A)", "rsqrt(A)", "recip(A)", "tanh(A)", "sigmoid(A)", "erf(A)", "abs(A)", "rint(A)"),
    *("floor(A)", "ceil(A)", "exp2(A)", "-A", "A", "relu(A)", "A * A", "A * sigmoid(A)"),
)
_FUSED = ("A * B + C", "exp(A - B)", "(A - B) * C", "max(A * imm, A)", "min(max(A, imm), 1.0)", "A * imm + B")
_REDUCTIONS = ("Y += A", "Y max= A", "Y min= A", "Y += A * A", "Y += A * B")
_COMMON = {"A + B", "A * B", "A + imm", "A * imm", "imm", "Y += A", "Y max= A", "exp(A)", "A"}
_CONVERTED = {
    "int8": (
        *("i8(clip({}, -128, 127))", "i8(clip(rint({}), -128, 127))"),
        *("i8({})", "i8(clip(rint({} * imm), -128, 127))"),
    ),
    "uint8": ("u8(clip(rint({}), 0, 255))", "u8(clip({}, 0, 255))"),
    "int16": ("i16(clip(rint({}), -32768, 32767))",),
    "int32": ("i32({})", "i32(rint({}))"),
}


class _VectorMachine(_Machine):
    """A machine whose vector unit has a home memory ``v``, and may have one of numbers of rows and registers."""

    def __init__(self, rng: random.Random, further: random.Random) -> None:
        """``further`` draws what may be added to a machine: views of the home memory, dimensions of copies."""
        super().__init__(rng)
        self.further = further
        self.shape = rng.choice([[1], [1], [1], [1], [4], [8], [16], [2, 4]])
        lanes = self.shape[0] * self.shape[-1] if len(self.shape) > 1 else self.shape[0]
        self.wide = lanes > 1
        self.depths_of_floats = {"v": max(16, rng.choice([512, 2048, 8192, 32768]) // lanes)}
        self.shapes = {"v": self.shape}
        if self.wide and rng.random() < 0.8:
            self.depths_of_floats["s"], self.shapes["s"] = rng.choice([64, 1024]), [1]
        if rng.random() < 0.25:
            self.depths_of_floats["r"], self.shapes["r"] = rng.choice([8, 64, 512]), self.shape
        self.views = {name for name in ("s", "r") if name in self.shapes and further.random() < 0.7}
        for name in self.views:
            self.depths_of_floats[name] = self.depths_of_floats["v"] * lanes // (1 if name == "s" else lanes)
        self.dimensions = further.choice([0, 0, 1, 2, 3])
        self.vector_unit = rng.choice(["vec", "vec", "vec", "mm"])
        self.engines = (rng.choice(["ld", "ld", "vld"]), rng.choice([self.unit["store"], "vst"]))
        self.field_bits, self.loop_count = rng.choice([6, 8, 12, 16]), rng.choice([1, 2, 2, 2, 3])
        self.missing = rng.choice([0.0, 0.1, 0.3, 0.6])

    def _has(self, text: str) -> bool:
        return self.rng.random() >= self.missing / (4 if text in _COMMON else 1)

    # copies

    def _vector_copies(self) -> None:
        loads = {"float32": 1.0, "int8": 0.85, "int32": 0.7, "uint8": 0.3, "int16": 0.2}
        stores = {"float32": 1.0, "int8": 0.85, "int32": 0.4, "uint8": 0.3, "int16": 0.2}
        for direction, chances in (("load", loads), ("store", stores)):
            for dtype, chance in chances.items():
                if self.rng.random() < chance:
                    self._vector_copy(direction, dtype, "v")
        if "s" in self.shapes and self.rng.random() < 0.5:
            self._vector_copy("load", "float32", "s")
            self._vector_copy("store", "float32", "s")

    def _vector_copy(self, direction: str, dtype: str, memory: str) -> None:
        rng, at = self.rng, "[r, l]" if len(self.shapes[memory]) > 1 else "[l]"
        made = _Instruction(self.made, name=f"{direction}_{memory}_{dtype}", kind="copy", pragma=f"pragma_{direction}")
        bits = (self.depths_of_floats[memory] - 1).bit_length()
        fields = {"sram": made.field("sram", bits), "dram": made.field("dram", 32)}
        if rng.random() < 0.9:
            fields |= {"rows": made.field("rows", self.field_bits), "row_stride": made.field("row_stride", 32)}
        if rng.random() < 0.9:
            fields["columns"] = made.field("columns", self.field_bits)
        dimensions = [
            {
                "extent": made.field(f"d{number}", self.field_bits),
                "dram_stride": made.field(f"d{number}_dram", 32),
                **({"sram_stride": made.field(f"d{number}_sram", bits + 1)} if self.further.random() < 0.8 else {}),
            }
            for number in range(min(self.dimensions, 3 - ("rows" in fields)))
        ]
        does: tuple[str, ...] = ()
        if dtype != "float32" and direction == "load":
            does = (f"sram{at} = f32(dram{at})",)
        elif dtype != "float32":
            known = [text for text in _CONVERTED[dtype] if rng.random() < 0.6] or [_CONVERTED[dtype][0]]
            does = tuple(f"dram{at} = {text.format(f'sram{at}')}" for text in known)
        self._operations(made, does)
        cost = "max(ceil(bytes / bus_bytes), rows)" if "rows" in fields else "ceil(bytes / bus_bytes)"
        made.keys |= {
            "unit": self.engines[direction == "store"],
            "direction": direction,
            "memory": memory,
            "dram_dtype": dtype,
            "dram_unit": rng.choice(["byte", "byte", "element"]) if not self.wide else "byte",
            "copy_fields": fields,
            **({"dimensions": dimensions} if dimensions else {}),
            "cycles": f"read_latency + {cost}" if direction == "load" else cost,
        }

    def _operations(self, made: _Instruction, does: tuple[str, ...]) -> None:
        if any("imm" in text for text in does):
            made.field("imm", 32, "float32")
        if len(does) > 1:
            made.field("op", 6)
        made.keys["operations"] = [
            {"name": f"o{number}", "does": text} | ({"when": {"op": number}} if len(does) > 1 else {})
            for number, text in enumerate(does)
        ]

    # arithmetic

    def _vector_computes(self) -> None:
        rng = self.rng
        sources = ["r"] if "r" in self.shapes and rng.random() < 0.5 else ["v"]
        if "r" in self.shapes:
            for one, other in (("r", "v"), ("v", "r")):
                self._vector_compute(f"move_{one}{other}", {"Y": one, "A": other}, ("A",), "")
        groups = {"pair": _PAIRS, "immediate": _IMMEDIATES, "function": _FUNCTIONS}
        fused = tuple(text for text in _FUSED if rng.random() < 0.3)
        for memory in sources:
            for name, texts in groups.items():
                self._vector_compute(f"{name}_{memory}", self._operands(memory, texts), texts, "")
            if fused:
                self._vector_compute(f"fused_{memory}", self._operands(memory, fused), fused, "")
        main = sources[0]
        if self.wide and "s" in self.shapes:
            self._vector_compute("row_pair", {"Y": main, "A": main, "B": "s"}, _PAIRS, "")
            self._vector_compute("s_immediate", {"Y": "s", "A": "s"}, _IMMEDIATES, "")
            self._vector_compute("s_function", {"Y": "s", "A": "s"}, _FUNCTIONS, "")
            if rng.random() < 0.5:
                self._vector_compute("s_pair", {"Y": "s", "A": "s", "B": "s"}, _PAIRS, "")
            self._vector_compute("reduce", {"Y": "s", "A": main, "B": main}, _REDUCTIONS, "Y")
        else:
            self._vector_compute("reduce", {"Y": main, "A": main, "B": main}, _REDUCTIONS, "Y")

    def _operands(self, memory: str, texts: tuple[str, ...]) -> dict[str, str]:
        names = [name for name in "AB" if any(name in text.replace("BC", "") for text in texts)]
        names += ["C"] if any("C" in text for text in texts) else []
        return dict.fromkeys(("Y", *names), memory)

    def _vector_compute(self, name: str, operands: dict[str, str], texts: tuple[str, ...], stays: str) -> None:
        kept = tuple(text for text in texts if self._has(text))
        if not kept:
            return
        used = {each: memory for each, memory in operands.items() if each == "Y" or any(each in one for one in kept)}
        made = _Instruction(self.made, name=name, kind="compute", pragma="pragma_vector", unit=self.vector_unit)
        at = {each: self._at(memory, lanes=not stays or each != stays) for each, memory in used.items()}
        made.keys["operands"] = {
            each: {
                "memory": memory,
                "address": made.field(f"{each.lower()}_at", (self.depths_of_floats[memory] - 1).bit_length()),
            }
            for each, memory in used.items()
        }
        self._operations(made, tuple(self._text(text, at, stays) for text in kept))
        step = max(8, self.field_bits)
        made.keys["loops"] = [
            {
                "extent": made.field(f"n{loop}", self.field_bits),
                "factors": {
                    each: made.field(f"{each.lower()}_by{loop}", step)
                    for each in used
                    if not (stays == each and loop == self.loop_count - 1)
                },
            }
            for loop in range(self.loop_count)
        ]
        made.keys["cycles"] = " * ".join(f"n{loop}" for loop in range(self.loop_count)) + " + 4"

    def _at(self, memory: str, *, lanes: bool) -> str:
        shape = self.shapes[memory]
        if len(shape) > 1:
            return "[r, l]"
        return "[l]" if shape[0] > 1 and lanes else "[0]"

    def _text(self, text: str, at: dict[str, str], stays: str) -> str:
        return "".join(letter + at[letter] if letter in at else letter for letter in (text if stays else f"Y = {text}"))

    # the whole

    def _tokens(self) -> Document:
        finish = _Instruction(self.made, name="finish", kind="finish", unit="mm")
        units = {made.keys["unit"] for made in self.made["instructions"]}
        for made in self.made["instructions"]:
            others = units - {made.keys["unit"]}
            made.keys["tokens"] = {
                way: {other: made.field(f"{way}_{other}", 1) for other in sorted(others)} for way in ("pop", "push")
            }
        assert finish.top
        return {"kind": "tokens", "limit": self.rng.choice([1, 2, 3, 255])}

    def _whole(self) -> Document:
        self._vector_copies()
        self._vector_computes()
        document = super()._whole()
        document["memories"] += [
            {"name": name, "scope": f"local.{name}", "dtype": "float32", "shape": shape,
             "depth": self.depths_of_floats[name], **({"view_of": "v"} if name in self.views else {})}
            for name, shape in self.shapes.items()
        ]  # fmt: skip
        document |= {"name": "random-vectors", "title": "Random machine with a vector unit", "word_bits": 512}
        copying = sorted({each["unit"] for each in document["instructions"] if each["kind"] == "copy"})
        if len(copying) > 1 and self.rng.random() < 0.4:
            document["dram"]["shared_by"] = copying
        return document


def random_vector_machine(seed: int) -> Document:
    """The document of a machine; equal seeds give equal machines. Not all can work: a check refuses some."""
    return _VectorMachine(random.Random(seed), random.Random(f"further {seed}")).document()
