"""Machines with instructions as large as a layer, that differ from the preset in what such a machine may differ in."""

import copy
from collections.abc import Callable
from typing import Any

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator

Document = dict[str, Any]


def changed(*changes: Callable[[Document], None], preset: str = "conv-engine") -> Accelerator:
    """A preset with changes."""
    document = load_accelerator(preset).model_dump(mode="json", exclude_none=True)
    for change in changes:
        change(document)
    return parse_accelerator(copy.deepcopy(document))


def instruction(document: Document, name: str) -> Document:
    """An instruction of a document."""
    return next(each for each in document["instructions"] if each["name"] == name)


def _field(layer: Document, name: str) -> Document:
    return next(each for each in layer["fields"] if each["name"] == name)


def small_memories(document: Document) -> None:
    """Little room on the chip: layers are cut into tiles of rows, columns and blocks."""
    document["memories"][0]["depth"] = 48
    document["memories"][2]["depth"] = 5


def narrow_counts(document: Document) -> None:
    """Extents of two and three bits."""
    layer = instruction(document, "convolve")
    for name, bits in (("blocks", 1), ("rows", 3), ("columns", 2)):
        _field(layer, name)["bits"] = bits


def bytes_of_dram(document: Document) -> None:
    """Addresses, steps and pitches that count bytes."""
    element = {"X": 16, "W": 256, "BIAS": 64, "Y": 16, "A": 16, "B": 16}
    for layer in document["instructions"]:
        layer["dram_unit"] = "byte"
        for loop in layer["loops"]:
            loop["steps"] = {name: step * element[name] for name, step in loop["steps"].items()}
    for name in ("data_buffer", "weight_buffer", "sums"):  # as large as it was
        assert any(memory["name"] == name for memory in document["memories"])


def no_padding(document: Document) -> None:
    """A kernel that is always within the data: the host pads."""
    for window in instruction(document, "convolve")["operands"]["X"]["windows"]:
        del window["before"]


def no_groups(document: Document) -> None:
    """Data that do not step with blocks of the result: depthwise layers take an instruction a block."""
    del instruction(document, "convolve")["loops"][0]["factors"]["X"]


def no_kernel_rows(document: Document) -> None:
    """A kernel of any columns in one row, whose sums are begun once: others are no layer of it."""
    layer = instruction(document, "convolve")
    layer["loops"] = [loop for loop in layer["loops"] if loop["extent"] != "kernel_rows"]
    del layer["operands"]["X"]["windows"][0]["over"]["kernel_rows"]
    layer["cycles"] = layer["cycles"].replace("* kernel_rows", "").replace("kernel_rows *", "")
    layer["uses"]["weight_buffer"] = "in_blocks * kernel_columns"


def loops_inside_out(document: Document) -> None:
    """The loops of the result in another order, which says nothing of the numbers."""
    layer = instruction(document, "convolve")
    blocks, rows, columns, *summed = layer["loops"]
    layer["loops"] = [columns, *reversed(summed), rows, blocks]


def eight_wide(document: Document) -> None:
    """Elements of 8 channels."""
    document["memories"][0]["shape"] = document["memories"][2]["shape"] = [8]
    document["memories"][1]["shape"] = [8, 8]


def shifts(document: Document) -> None:
    """Results that shift to the right, without a float, within bounds that are no fields."""
    layer = instruction(document, "convolve")
    (operation,) = layer["operations"]
    ends = "Y[n] = i8(clip((SUM[n] + (1 << shift - 1)) >> shift, {}, 127))"
    layer["operations"] = [
        operation | {"name": name, "when": {"relu": relu}, "ends": ends.format(low)}
        for name, relu, low in (("shift", 0, -128), ("shift_relu", 1, 0))
    ]
    more = [{"name": "shift", "lsb": 32, "bits": 5}, {"name": "relu", "lsb": 8, "bits": 1}]
    layer["fields"] = [*_without(layer, "scale", "low", "high"), *more]


def _without(layer: Document, *names: str) -> list[Document]:
    return [each for each in layer["fields"] if each["name"] not in names]


def wide_results(document: Document) -> None:
    """Sums that leave as they are: the host requantises."""
    layer = instruction(document, "convolve")
    del layer["operands"]["Y"]["dram_dtype"]
    layer["operations"] = [layer["operations"][0] | {"ends": "Y[n] = SUM[n]"}]
    layer["fields"] = _without(layer, "scale", "low", "high")


def cleared(document: Document) -> None:
    """Sums that begin at 0, without a bias."""
    layer = instruction(document, "convolve")
    for operation in layer["operations"]:
        operation["begins"] = "SUM[n] = 0"
    del layer["operands"]["BIAS"], layer["loops"][0]["steps"]["BIAS"]
    layer["fields"] = _without(layer, "bias")


def of_parts(document: Document) -> None:
    """A convolution of two words: registers that stay, and the one that says where, and starts it."""
    layer = instruction(document, "convolve")
    opcode, *fields = layer.pop("fields")
    last = ("x", "w", "bias", "y", "rows", "pad_top", "height")
    parts = [("registers", opcode | {"value": 9}, False), ("start", opcode, True)]
    for name, first, ends in parts:
        mine = [field for field in fields if (field["name"] in last) == ends]
        part = {"name": name, "kind": "part", "unit": layer["unit"], "sticky": not ends, "fields": [first, *mine]}
        document["instructions"].append(part)
    layer["sequence"] = ["registers", "start"]

    def whole(name: str) -> str:
        return f"{'start' if name in last else 'registers'}.{name}"

    for operand in layer["operands"].values():
        if "dram" in operand:
            operand["dram"] = whole(operand["dram"])
        for window in operand.get("windows", []):
            window["over"] = {whole(extent): whole(step) for extent, step in window["over"].items()}
            window |= {role: whole(window[role]) for role in ("before", "extent", "pitch") if role in window}
    for loop in layer["loops"]:
        loop["extent"] = whole(loop["extent"])
        loop["factors"] = {name: whole(field) for name, field in loop["factors"].items()}


def vector_with_layers(cycles: str) -> Accelerator:
    """The machine of 64 lanes, which loads, multiplies and stores tiles, with an engine for layers of such a price."""

    def added(document: Document) -> None:
        engine = load_accelerator("conv-engine").model_dump(mode="json", exclude_none=True)
        shifts(engine)
        layer = instruction(engine, "convolve")
        names = {"data_buffer": "x", "weight_buffer": "w", "sums": "acc"}
        for operand in layer["operands"].values():
            operand["memory"] = names[operand["memory"]]
        for operation in layer["operations"]:
            operation["does"] = "SUM[n] += i32(X[0]) * i32(W[n])"
        layer["uses"] = {names[name]: text for name, text in layer["uses"].items()}
        layer["fields"][0]["value"] = 60
        document["word_bits"] = engine["word_bits"]
        document["units"].append(layer["unit"])
        document["instructions"].append(layer | {"cycles": cycles})

    return changed(added, preset="vector")


MACHINES: dict[str, Callable[[Document], None]] = {
    each.__name__: each
    for each in (
        *(small_memories, narrow_counts, bytes_of_dram, no_padding, no_groups, no_kernel_rows),
        *(loops_inside_out, eight_wide, shifts, wide_results, cleared, of_parts),
    )
}
