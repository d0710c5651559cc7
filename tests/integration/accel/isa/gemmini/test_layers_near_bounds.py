"""Programs for a Gemmini beside what its units must do for them, in cycles that are exact."""

from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Report
from examples.networks import build
from examples.single import Dense, dense_model
from tests.helpers.marking import rest_all

GEMMINI = load_accelerator("gemmini")
PROJECTIONS = [Dense(128, 768, 768), Dense(128, 768, 3072), Dense(128, 3072, 768)]
"""BERT base's, of 128 tokens: of queries, keys, values and what attends; up, and down."""


def of_bound(report: Report) -> float:
    """Cycles by the bound: of what the mesh, or the bus, needs at least."""
    bound = sum(layer.lower_bound for layer in report.layers) if report.bound is None else report.bound.cycles
    return report.cycles / bound


@pytest.mark.slow
@pytest.mark.parametrize("layer", rest_all(PROJECTIONS))
def test_projections_of_transformers(layer: Dense, tmp_path: Path) -> None:
    """Catches tilings of products that wait for weights: a projection takes 1.006 to 1.026 of its bound."""
    report = run_model(dense_model(layer).SerializeToString(), GEMMINI, Options(trace=False), tmp_path)
    assert report.verified
    assert not report.host_ops
    assert of_bound(report) <= 1.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "most"),
    rest_all([("keyword_spotting", 1.5), ("autoencoder", 1.5), ("visual_wake_words", 1.5), ("mobilenet_v1", 1.5)]),
)
def test_small_networks(network: str, most: float, tmp_path: Path) -> None:
    """Catches schedules in which loads, products and stores no longer run beside each other."""
    report = run_model(build(network).SerializeToString(), GEMMINI, Options(trace=False), tmp_path)
    assert report.verified
    assert of_bound(report) <= most


@pytest.mark.slow
def test_resnet8(tmp_path: Path) -> None:
    """Catches what the 75,000 cycles that were aimed at would not be met by."""
    report = run_model(build("resnet8").SerializeToString(), GEMMINI, Options(trace=False), tmp_path)
    assert report.verified
    assert report.cycles < 75_000
