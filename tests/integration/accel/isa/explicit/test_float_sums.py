"""Sums of float32 products in hardware loops, against numpy, one term after the other, bit by bit."""

import numpy as np
import pytest

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.explicit.explicit_family import FAMILY
from accel.util.arrays import Array, aligned_zeros
from tests.helpers.documents.explicit_documents import document, row, stream

KEPT = ("load_x", "load_w", "load_c", "gemm", "store_wide")


def machine(does: str, m: int, k: int, n: int) -> Accelerator:
    """The small machine in float32: tiles of m by n results, k terms an execution."""
    found = document({"kind": "in_order"}).model_dump(mode="json")
    transposed = "W[j, k]" in does
    shapes = {"x": [k], "w": [n, k] if transposed else [k, n], "c": [m, n]}
    for memory in found["memories"]:
        memory |= {"dtype": "float32", "shape": shapes[memory["name"]]}
    found["instructions"] = [each for each in found["instructions"] if each["name"] in KEPT]
    for each in found["instructions"]:
        if each["kind"] == "copy":
            each |= {"dram_dtype": "float32", "dram_unit": "element", "operations": []}
        else:
            each["operations"] = [{"name": "accumulate", "when": {"op": 0}, "does": does}]
            each["operands"]["X"]["shape"] = [m, k]
    made = Accelerator.model_validate(found)
    check_document(made)
    FAMILY.check(made)
    return made


def expected(does: str, tiles: dict[str, Array], fields: dict[str, int]) -> Array:
    """What the sums are, each term rounded as it is added; the operands of an execution are where the fields say."""
    x, w, c = tiles["x"], tiles["w"], tiles["c"].copy()
    m = c.shape[1]
    for outer in range(fields["outer"]):
        for inner in range(fields["inner"]):
            first = fields["x"] + outer * fields["x_outer"] + inner * fields["x_inner"]
            weights = w[fields["w"] - outer + inner * fields["w_inner"]]
            weights = weights.T if "W[j, k]" in does else weights
            for k in range(x.shape[1]):
                c[fields["c"] + outer * fields["c_outer"]] += x[first : first + m, k, None] * weights[k]
    return c


@pytest.mark.parametrize(
    ("does", "m", "k", "n"),
    [
        ("C[i, j] += X[i, k] * W[j, k]", 2, 3, 8),
        ("C[i, j] += X[i, k] * W[j, k]", 1, 6, 5),
        ("C[i, j] += X[i, k] * W[k, j]", 2, 4, 7),
        ("C[i, j] += X[i, k] * W[j, k]", 2, 2, 3),
    ],
)
def test_sums_of_floats_have_the_order_of_the_document(does: str, m: int, k: int, n: int) -> None:
    """It would catch sums in another order, fused with products, and weights kept while others are asked for."""
    accelerator = machine(does, m, k, n)
    running, random = ExplicitMachine(accelerator), np.random.default_rng(m + k + n)
    loops = {"outer": 3, "inner": 2, "x": 1, "w": 3, "c": 2, "x_outer": 1, "c_outer": 1, "x_inner": 2}
    for w_inner in (0, 1, 2):  # one that stays in the inner loop, one that comes back in the outer loop, and others
        tiles = {name: random.normal(size=running.contents(name).shape).astype(np.float32) for name in ("x", "w", "c")}
        dram, rows, at = aligned_zeros(1 << 14), [], 0
        for name, tile in tiles.items():
            element = tile[0].size
            at = -(-at // element) * element
            dram.view(np.float32)[at : at + tile.size] = tile.reshape(-1)
            rows.append(row(f"load_{name}", dram=at // element, columns=len(tile), row_stride=len(tile)))
            at += tile.size
        running.run(stream(accelerator, [*rows, row("gemm", w_inner=w_inner, **loops)]), dram)
        np.testing.assert_array_equal(running.contents("c"), expected(does, tiles, loops | {"w_inner": w_inner}))
