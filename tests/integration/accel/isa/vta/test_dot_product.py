import re

import pytest
import tvm

from accel.isa.vta.function.dot_product import DotProduct
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.launch_kernel import source_of
from tests.helpers.marking import rest_all
from tests.helpers.programs.golden import board

GEOMETRY = Geometry.of(board())


def assembly(dot, **target):
    module = tvm.IRModule({"launch": source_of(GEOMETRY, dot).build(source_of(GEOMETRY, dot).text)})
    return str(tvm.compile(module, target=tvm.target.Target({"kind": "llvm"} | target)).mod.inspect_source("asm"))


@pytest.mark.slow
@pytest.mark.parametrize("cpu", rest_all(["generic", "neoverse-n1"]))
def test_on_aarch64_the_portable_kernel_multiplies_in_vectors(cpu):
    text = assembly(DotProduct(GEOMETRY.block_out, None), mtriple="aarch64-linux-gnu", mcpu=cpu)
    pairs = GEOMETRY.block_in // 2
    assert len(re.findall(r"\bm(?:la|ul)\s+v\d+\.4s", text)) >= 4 * pairs  # 16 outputs are four registers


def test_without_a_host_that_is_known_the_portable_kernel_is_chosen(monkeypatch):
    target = tvm.target.Target({"kind": "llvm"})
    monkeypatch.setattr(
        "accel.isa.vta.function.dot_product.codegen.llvm_get_system_triple", lambda: "riscv64-linux-gnu"
    )
    assert DotProduct.of_host(GEOMETRY, target) == DotProduct(16, None)


def test_the_widest_instruction_that_fits_the_block_is_chosen():
    for cpu, lanes, channels in (
        ("x86-64", 4, 2),
        ("haswell", 8, 2),
        ("skylake-avx512", 16, 2),
        ("cascadelake", 16, 4),
        ("sapphirerapids", 16, 4),
    ):
        dot = DotProduct.of_host(GEOMETRY, tvm.target.Target({"kind": "llvm", "mcpu": cpu}))
        assert (dot.lanes, dot.channels) == (lanes, channels)
