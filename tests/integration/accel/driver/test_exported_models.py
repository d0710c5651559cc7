"""Models as exporters write them compile, run and verify, with all their layers on the accelerator."""

from itertools import cycle
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.report_documents import Report
from tests.helpers.exported.activations import ACTIVATIONS
from tests.helpers.exported.case import Case, Catalogue
from tests.helpers.exported.folds import FOLDS
from tests.helpers.exported.layers import LAYERS
from tests.helpers.exported.shapes import SHAPES
from tests.helpers.marking import rest_all

CASES: dict[str, Case] = {**ACTIVATIONS, **FOLDS, **LAYERS, **SHAPES}
FAST = ["scale_in_disguise", "preactivation", "constant_on_the_left", "split_in_halves"]


def run(case: Case, opset: int, preset: str, out: Path) -> Report:
    return run_model(case.model(opset).SerializeToString(), load_accelerator(preset), Options(trace=False), out)


def check(case: Case, report: Report, *, exactly: bool = True) -> None:
    """``exactly``: the host has no other operators than the case says."""
    assert report.verified or (report.verified is None and case.share == 0)
    assert case.share <= report.macs.share <= 1
    assert min(quality.cosine for quality in report.quantisation) >= case.cosine
    if exactly and case.host is not None:
        assert {entry.op for entry in report.host_ops} <= case.host


@pytest.mark.parametrize("name", rest_all(FAST, keep=3))
def test_a_few(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    check(case, run(case, case.opsets[0], "vta", tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CASES)
def test_all_run(name: str, tmp_path: Path) -> None:
    """In the newest opset."""
    case = CASES[name]
    check(case, run(case, case.opsets[-1], "vta", tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "preset"), list(zip(CASES, cycle(["gemmini", "output-stationary", "vector"]))))
def test_all_run_on_some_other_accelerator(name: str, preset: str, tmp_path: Path) -> None:
    case = CASES[name]
    check(case, run(case, case.opsets[-1], preset, tmp_path), exactly=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case.opsets) > 1])
def test_all_run_in_other_opsets(name: str, tmp_path: Path) -> None:
    """One in the oldest, the next in one between."""
    case = CASES[name]
    opset = case.opsets[[0, (len(case.opsets) - 1) // 2][list(CASES).index(name) % 2]]
    check(case, run(case, opset, "vta", tmp_path))


def test_no_two_cases_have_one_name() -> None:
    catalogues: list[Catalogue] = [ACTIVATIONS, FOLDS, LAYERS, SHAPES]
    assert sum(map(len, catalogues)) == len(CASES)
