"""What is said of copies and pragmas without TVM, against what the compiler finds with it."""

import copy
import mmap
import re
from pathlib import Path
from typing import Any

import pytest
import tvm

from accel.accelerator.checks.dataflow_checks import copy_kind
from accel.accelerator.checks.document_checks import CONTEXTS_PRAGMA, TVM_PRAGMAS, check_document
from accel.accelerator.contraction import contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.semantics import semantics_of
from accel.accelerator.target import Target
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir import function_attributes
from accel.region.epilogue import Scaling
from tests.unit.accel.accelerator.refused.bases import BASES

_HALF = Scaling(0.5, -128, 127)


def _document(name: str, does: str, **fields: str) -> Accelerator:
    """The output-stationary array whose instruction ``name`` is alone of its direction, and does something else."""
    document: Any = copy.deepcopy(BASES["output-stationary"])
    own = next(one for one in document["instructions"] if one["name"] == name)
    same = [one for one in document["instructions"] if one.get("memory") == own["memory"] and one is not own]
    others = [one for one in same if one.get("direction") == own["direction"]]
    document["instructions"] = [one for one in document["instructions"] if one not in others]
    kept = [field for field in own["fields"] if field["name"] not in ("relu", "scale")]
    more = [{"name": f, "lsb": 160 + 32 * at, "bits": 32, "type": kind} for at, (f, kind) in enumerate(fields.items())]
    own |= {"fields": [*kept, *more], "operations": [{"name": "own", "does": does}]}
    accelerator = Accelerator.model_validate(document | {"word_bits": 320})
    check_document(accelerator)
    return accelerator


@pytest.mark.parametrize(
    ("does", "fields"),
    [
        ("sram[m, n] = dram[m, n]", {}),
        ("sram[m, n] = dram[m, n] >> down", {"down": "unsigned"}),
        ("sram[m, n] = (dram[m, n] + zero) * one", {"zero": "signed", "one": "signed"}),
        ("sram[m, n] = zero + dram[m, n]", {"zero": "signed"}),
        ("sram[m, n] = zero - dram[m, n]", {"zero": "signed"}),
        ("sram[m, n] = dram[m, n] ^ flip", {"flip": "signed"}),
        ("sram[m, n] = dram[m, n] << 1", {}),
        ("sram[m, n] = dram[m, n] + 0", {}),
        ("sram[m, n] = 0", {}),
        ("sram[m, n] += dram[m, n]", {}),
        ("sram[m, n] = relu(dram[m, n])", {}),
        ("sram[m, n] = -dram[m, n]", {}),
    ],
)
def test_a_load_is_plain_where_the_compiler_takes_it_as_one(does: str, fields: dict[str, str]) -> None:
    accelerator = _document("load_c", does, **fields)
    (meaning,) = semantics_of(accelerator, accelerator.instruction("load_c"))  # type: ignore[arg-type]
    assert (copy_kind(meaning) == "plain") == (Capabilities.of(Target(accelerator)).load("c", "int32") is not None)


_F32 = "f32(sram[m, n])"


@pytest.mark.parametrize(
    ("value", "fields", "way"),
    [
        (f"i8(clip(rint({_F32} * scale), -128, 127))", {"scale": "float32"}, "scaled"),
        (f"i8(min(max(rint(scale * {_F32}), -128), 127))", {"scale": "float32"}, "scaled"),
        (f"i8(clip({_F32} * scale, -128, 127))", {"scale": "float32"}, None),
        (f"i8(rint(clip({_F32} * scale, -128, 127)))", {"scale": "float32"}, None),
        ("i8(sram[m, n])", {}, "plain"),
        ("i8(sram[m, n] >> shift)", {"shift": "unsigned"}, "plain"),
        ("i8(sram[m, n] >> 4)", {}, None),
        ("i8(clip(sram[m, n] >> shift, -128, 127))", {"shift": "unsigned"}, "shifted"),
        ("i8(clip((sram[m, n] + (1 << (shift - 1))) >> shift, -128, 127))", {"shift": "unsigned"}, "shifted"),
        ("i8(clip(sram[m, n], -128, 127))", {}, None),
    ],
)
def test_the_ways_of_a_store(value: str, fields: dict[str, str], way: str | None) -> None:
    accelerator = _document("store_scaled", f"dram[m, n] = {value}", **fields)
    (meaning,) = semantics_of(accelerator, accelerator.instruction("store_scaled"))  # type: ignore[arg-type]
    assert copy_kind(meaning) == way
    capabilities = Capabilities.of(Target(accelerator))
    assert (way == "scaled") == (capabilities.store("int8", _HALF) is not None)
    assert (way == "plain") == (capabilities.store("int8") is not None)


@pytest.mark.slow
def test_the_pragmas_of_tvm_are_known() -> None:
    (library,) = Path(tvm.__file__).parent.glob("lib/libtvm_compiler.*")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        found = {name.decode() for name in re.findall(rb"\0(pragma_[A-Za-z0-9_]+)(?=\0)", text)}
    assert found
    assert found <= TVM_PRAGMAS
    assert function_attributes.CONTEXTS_PRAGMA == CONTEXTS_PRAGMA


def _multiplying(does: str) -> Accelerator:
    document: Any = copy.deepcopy(BASES["mvin-mvout"])
    matmul = next(one for one in document["instructions"] if one["name"] == "matmul")
    matmul["operations"][0]["does"] = does
    return Accelerator.model_validate(document)


def test_the_second_factor_is_the_data_where_only_it_can_be() -> None:
    gemm = contraction(_multiplying("C[i, j] += i32(B[k, j]) * i32(A[i, k])"))
    assert (gemm.data.name, gemm.weights.name) == ("A", "B")
    assert (gemm.data.axes, gemm.weights.axes, gemm.dst.axes) == (("m", "k"), ("k", "n"), ("m", "n"))
    assert (gemm.rows, gemm.out_channels, gemm.in_channels) == (4, 4, 8)


@pytest.mark.parametrize("does", ["i32(i16(A[i, k]) * i16(B[k, j]))", "i32(i32(A[i, k]) * i32(i8(B[k, j])))"])
def test_a_product_in_other_words_contracts(does: str) -> None:
    gemm = contraction(_multiplying(f"C[i, j] += {does}"))
    assert gemm.macs == 4 * 4 * 8
