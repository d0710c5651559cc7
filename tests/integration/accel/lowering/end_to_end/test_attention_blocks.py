"""Attention over blocks of keys on the document of a machine with a float32 array, against float64 of numpy.

It would catch a last block that is shorter, keys that are masked, a running maximum that is not carried from one block
to the next, sums that do not shrink, a fused program that is taken though it is slower, and one that is not offered.
"""

from pathlib import Path

import numpy as np
import pytest

from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Attention, Options
from accel.report.documents.report_documents import Report
from accel.util.arrays import Array
from examples.attention import attention, scores_to_context
from tests.helpers.marking import rest_all

MACHINE = parse_accelerator((Path(__file__).parents[5] / "docs" / "machines" / "float-array.yaml").read_bytes())
Shape = tuple[int, int, int, int]


def masked(kind: str, queries: int, keys: int) -> Array | None:
    """What is added to scores: nothing, or what hides keys behind a query's own, as networks write it."""
    seen = np.arange(keys) <= np.arange(queries)[:, None] + max(keys - queries, 0) // 2
    if kind == "infinite":  # a whole block, and more
        return np.where(seen & (np.arange(keys) >= keys // 3), 0.0, -np.inf)
    lowest = {"causal": -1e9, "lowest": float(np.finfo(np.float32).min)}
    return np.where(seen, 0.0, lowest[kind]) if kind in lowest else None


def run(shape: Shape, kind: str, how: Attention, folder: Path, *, transposed: bool = False) -> Report:
    """The report of attention of (heads, queries, keys, width), whose outputs are compared with numpy's in float64."""
    heads, queries, keys, width = shape
    mask = masked(kind, queries, keys)
    model = scores_to_context(*shape, mask=mask, transposed=transposed)
    random = np.random.default_rng(keys)
    sizes = {"q": (heads, queries, width), "k": (heads, keys, width), "v": (heads, keys, width)}
    q, k, v = (random.normal(size=size).astype(np.float32) * 2 for size in sizes.values())
    given = {"q": q, "k": k.transpose(0, 2, 1).copy() if transposed else k, "v": v}
    report = run_model(model.SerializeToString(), MACHINE, Options(trace=False, attention=how), folder, inputs=given)
    scores = q.astype(np.float64) @ k.transpose(0, 2, 1) / np.sqrt(width) + (0 if mask is None else mask)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    with np.load(folder / "outputs.npz") as outputs:
        np.testing.assert_allclose(outputs["y"], weights @ v / weights.sum(-1, keepdims=True), rtol=1e-4, atol=1e-5)
    assert report.verified
    assert not report.host_ops
    assert all(found.independent for found in report.floats)
    assert report.macs.share == 1.0
    return report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "kind"),
    rest_all(
        [
            ((2, 30, 397, 16), "causal"),
            ((2, 17, 600, 8), "infinite"),
            ((3, 50, 390, 16), "lowest"),
            ((1, 1, 1200, 24), "none"),
            ((1, 130, 331, 24), "causal"),
            ((5, 7, 11, 3), "none"),
        ],
        keep=2,
    ),
)
def test_keys_in_blocks(shape: Shape, kind: str, tmp_path: Path) -> None:
    report = run(shape, kind, "fused", tmp_path)
    assert [placed.chosen for placed in report.attention] == ["fused"]
    assert len(report.floats) == 1  # one launch, and no score in DRAM
    heads, queries, _, width = shape
    assert report.dram is not None
    assert report.dram.bytes_written == heads * queries * width * 4


@pytest.mark.slow
def test_long_keys_are_fused_and_short_ones_are_not(tmp_path: Path) -> None:
    """Each is faster the way that is taken, as whole programs; and scores that leave are no such attention."""
    long, apart = (run((1, 64, 1024, 16), "none", how, tmp_path) for how in ("auto", "unfused"))
    assert [placed.chosen for placed in long.attention] == ["fused"]
    assert not apart.attention
    assert long.cycles < apart.cycles
    assert long.dram is not None
    assert apart.dram is not None
    assert long.dram.bytes_read + long.dram.bytes_written < apart.dram.bytes_read + apart.dram.bytes_written
    (short,) = run((2, 24, 40, 16), "none", "auto", tmp_path, transposed=True).attention
    assert short.chosen == "unfused"
    assert short.unfused.cycles is not None
    assert short.fused.cycles is not None
    assert short.unfused.cycles <= short.fused.cycles


@pytest.mark.all
@pytest.mark.parametrize("how", ["fused", "unfused"])
@pytest.mark.parametrize("seed", range(12))
def test_random_attention(seed: int, how: Attention, tmp_path: Path) -> None:
    """It would catch tiles that are left out, where extents are no multiples of them along several axes."""
    random = np.random.default_rng(seed)
    heads, width = (int(random.integers(1, most)) for most in (4, 40))
    queries, keys = (int(random.integers(1, most)) for most in (150, 700))
    kind = ("none", "causal", "lowest")[int(random.integers(3))]
    run((heads, queries, keys, width), kind, how, tmp_path, transposed=bool(random.integers(2)))


@pytest.mark.slow
def test_a_block_with_projections(tmp_path: Path) -> None:
    """Projections are int8, and what is between stays float32, from int8 queries, keys and values on."""
    report = run_model(attention().SerializeToString(), MACHINE, Options(trace=False, attention="fused"), tmp_path)
    assert report.verified
    assert report.macs.share == 1.0
    (placed,) = report.attention
    assert {"scores", "softmax", "mixed"} <= set(placed.nodes)
    assert not report.host_ops
