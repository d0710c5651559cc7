"""The right documents that the wrong ones are made from: presets, what comes of them, and one that slides."""

import copy
from pathlib import Path
from typing import Any

import accel.accelerator
from accel.accelerator.text.document_text import read_text
from tests.helpers.documents.channel_stores import channel_stores

_MACHINES = Path(__file__).parents[5] / "docs" / "machines"
_PRESETS = Path(accel.accelerator.__file__).parent / "presets"


def text(name: str) -> str:
    """A preset as it is written."""
    (path,) = _PRESETS.glob(f"{name}.*")
    return path.read_text()


def _preset(name: str) -> Any:
    return read_text(text(name).encode())


def _with_tokens() -> Any:
    """The machine of one tile an instruction, whose units run apart and hand tokens to their neighbours."""
    document = copy.deepcopy(_preset("mvin-mvout"))
    document["synchronisation"] = {"kind": "tokens"}
    neighbours = {"load": ["array"], "array": ["load", "store"], "store": ["array"]}
    documents = [*document["instructions"], {"name": "done", "kind": "finish", "unit": "array", "fields": []}]
    documents[-1]["fields"].append({"name": "opcode", "lsb": 0, "bits": 8, "value": 6})
    for instruction in documents:
        lsb, tokens = 120, {"pop": {}, "push": {}}
        for direction, units in tokens.items():
            for unit in neighbours[instruction["unit"]]:
                units[unit] = f"{direction}_{unit}"
                instruction["fields"].append({"name": units[unit], "lsb": lsb, "bits": 1})
                lsb += 1
        instruction["tokens"] = tokens
    load = next(one for one in documents if one["name"] == "mvin_c")
    load["unit"] = "array"  # what the array begins with it fetches itself, so each memory is handed over once
    load["fields"] = load["fields"][:-2]
    load["fields"] += [{"name": f"{way}_{unit}", "lsb": 120 + at, "bits": 1} for at, (way, unit) in enumerate(_FOUR)]
    load["tokens"] = {way: {unit: f"{way}_{unit}" for unit in ("load", "store")} for way in ("pop", "push")}
    return document | {"instructions": documents}


_FOUR = (("pop", "load"), ("pop", "store"), ("push", "load"), ("push", "store"))


def _of_parts() -> Any:
    """The same machine, whose matmul is two words: where the factors are, which stays, and where the result goes."""
    document = copy.deepcopy(_preset("mvin-mvout"))
    matmul = next(one for one in document["instructions"] if one["name"] == "matmul")
    opcode, *addresses = matmul.pop("fields")
    factors = {"name": "factors", "kind": "part", "unit": "array", "sticky": True}
    go = {"name": "go", "kind": "part", "unit": "array", "fields": [opcode, addresses.pop()]}
    matmul["sequence"] = ["factors", "go"]
    matmul["operands"]["A"]["address"] = "factors.a_tile"
    matmul["operands"]["B"]["address"] = "factors.b_tile"
    matmul["operands"]["C"]["address"] = "go.c_tile"
    document["instructions"] += [factors | {"fields": [opcode | {"value": 7}, *addresses]}, go]
    return document


def _shared() -> Any:
    """The output-stationary array with one memory for both factors."""
    document = copy.deepcopy(_preset("output-stationary"))
    document["memories"] = [memory for memory in document["memories"] if memory["name"] != "b"]
    document["instructions"] = [one for one in document["instructions"] if one["name"] != "load_b"]
    multiply = next(one for one in document["instructions"] if one["name"] == "multiply")
    multiply["operands"]["B"]["memory"] = "a"
    return document


def _with_tables() -> Any:
    """The machine with a vector unit, whose loads of bytes and a function of whose vectors look numbers up."""
    document = copy.deepcopy(_preset("npu"))
    gelu = {"kind": "bytes", "name": "gelu", "of": "int8", "dtype": "int16", "values": list(range(-128, 128))}
    curve = {"kind": "interpolated", "name": "curve", "low": -8, "high": 0, "values": [0.0, 0.1, 0.4, 1.0]}
    function = next(one for one in document["instructions"] if one["name"] == "vector_function")
    look = copy.deepcopy(function) | {"name": "look"}
    look["fields"][0]["value"] = 60
    look["operations"] = [{"name": "curve", "when": {"op": 0}, "does": "Y[0] = lut(curve, A[0])"}]
    load = next(one for one in document["instructions"] if one["name"] == "load_v8")
    load["operations"][0]["does"] = "sram[l] = f32(lut(gelu, dram[l]))"
    return document | {"tables": [gelu, curve], "instructions": [*document["instructions"], look]}


def _without_layers(document: Any) -> Any:
    return document | {"instructions": [each for each in document["instructions"] if each["kind"] != "layer"]}


BASES: dict[str, Any] = {
    **{
        name: _preset(name)
        for name in ("vta", "mvin-mvout", "output-stationary", "vector", "npu", "gemmini", "conv-engine")
    },
    "gemmini without loops": _without_layers(_preset("gemmini")),
    "tokens": _with_tokens(),
    "parts": _of_parts(),
    "shared": _shared(),
    "tables": _with_tables(),
    "channel stores": channel_stores().model_dump(mode="json"),
    "vector file": read_text((_MACHINES / "vector-file.yaml").read_bytes()),
    "channel scales": read_text((_MACHINES / "channel-scales.yaml").read_bytes()),
    "eyeriss": read_text((_MACHINES / "eyeriss.yaml").read_bytes()),
}
