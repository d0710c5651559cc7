"""Machines made from the preset ``vector``: an array of any size, and beside it what a case asks for."""

from collections.abc import Sequence
from importlib import resources
from typing import Any

import yaml

Document = dict[str, Any]


def preset(name: str) -> Document:
    """The document of a preset in YAML."""
    found: Document = yaml.safe_load((resources.files("accel.accelerator") / "presets" / f"{name}.yaml").read_text())
    return found


def named(things: Sequence[Document], name: str) -> Document:
    """The memory, instruction, ... of that name."""
    return next(thing for thing in things if thing["name"] == name)


def array(
    rows: int, n: int, k: int, *, unit: Sequence[int] | None = (), without: Sequence[str] = (), multiplies: bool = False
) -> Document:
    """An array that multiplies rows x k by k x n; accumulators are rows of n.

    ``unit`` is how many of them its vector unit works on at once, by axes; None: it has no vector unit.
    """
    document = preset("vector")
    instructions = document["instructions"]
    document["title"] = f"array {rows}x{n}x{k}"
    for name, shape in (("x", [k]), ("w", [n]), ("acc", [n])):
        named(document["memories"], name)["shape"] = shape
    vmac, valu = named(instructions, "vmac"), named(instructions, "valu")
    vmac["operands"]["W"]["shape"] = [k, n]
    if rows > 1:
        vmac["operands"]["X"]["shape"], vmac["operands"]["ACC"]["shape"] = [rows, k], [rows, n]
    row = "i, " if rows > 1 else ""
    named(vmac["operations"], "accumulate")["does"] = f"ACC[{row}l] += i32(X[{row}c]) * i32(W[c, l])"
    named(vmac["operations"], "zero")["does"] = f"ACC[{row}l] = 0"
    if multiplies:
        valu["operations"].append({"name": "multiply", "when": {"op": 9}, "does": "DST[l] = DST[l] * imm"})
    axes = "".join(f"{axis}, " for axis in "ab"[: len(unit or ())])
    for operand in valu["operands"].values():
        operand["shape"] = [*(unit or ()), n]
    for operation in valu["operations"]:
        operation["does"] = operation["does"].replace("[l]", f"[{axes}l]")
    gone = {*without, *(["valu"] if unit is None else [])}
    document["instructions"] = [made for made in instructions if made["name"] not in gone]
    return document


def requantising(does: str, *, without: Sequence[str] = ("valu", "load_acc8")) -> Document:
    """The array 1x8x8, and a vector unit that does ``does`` to the accumulators ``V[l]``."""
    document = array(1, 8, 8, without=without)
    places = (("v", 16, 16), ("m", 32, 16), ("sh", 80, 5))
    signed = (("imm", 64, 16), ("lo", 96, 9), ("hi", 112, 9))
    operands = {"V": {"memory": "acc", "address": "v"}}
    if "M[" in does:
        operands["M"] = {"memory": "acc", "address": "m"}
    document["instructions"].append(
        {
            "name": "requantise", "kind": "compute", "pragma": "pragma_requantise", "unit": "vector",
            "operands": operands, "operations": [{"name": "requantise", "does": f"V[l] = {does}"}],
            "fields": [{"name": "opcode", "lsb": 0, "bits": 6, "value": 20}]
            + [{"name": name, "lsb": lsb, "bits": bits} for name, lsb, bits in places]
            + [{"name": name, "lsb": lsb, "bits": bits, "type": "signed"} for name, lsb, bits in signed],
        }
    )  # fmt: skip
    return document


def storing(*does: str, base: str = "shift") -> Document:
    """A machine whose only stores do ``does``: of the output-stationary preset (``scale``), or of an array 1x8x8."""
    document = preset("output-stationary") if base == "scale" else array(1, 8, 8, unit=None, without=("store_acc",))
    old = named(document["instructions"], "store_scaled" if base == "scale" else "store_acc8")
    kept = [made for made in document["instructions"] if made.get("direction") != "store"]
    names = (("sram", 8, 16), ("dram", 32, 32), ("rows", 64, 12), ("columns", 76, 12), ("row_stride", 88, 12))
    scalars = [{"name": "scale", "lsb": 128, "bits": 32, "type": "float32"}] if base == "scale" else []
    scalars += [{"name": "sh", "lsb": 112, "bits": 5}, {"name": "imm", "lsb": 160, "bits": 16, "type": "signed"}]
    at = "m, n" if base == "scale" else "l"
    document["word_bits"] = 192
    for number, value in enumerate(does):
        kept.append(
            {
                **old, "name": f"store{number}", "pragma": f"pragma_store{number}", "cycles": "rows",
                "operations": [{"name": "store", "does": f"dram[{at}] = {value.replace('[]', f'[{at}]')}"}],
                "fields": [{"name": "opcode", "lsb": 0, "bits": 8, "value": 40 + number}]
                + [{"name": name, "lsb": lsb, "bits": bits} for name, lsb, bits in names] + scalars,
            }
        )  # fmt: skip
    return {**document, "instructions": kept}
