"""Models as exporters write them compile, run and verify, with all their layers on the accelerator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Macs
from tests.helpers.exported.activations import ACTIVATIONS
from tests.helpers.exported.case import Case, Catalogue
from tests.helpers.exported.folds import FOLDS
from tests.helpers.exported.layers import LAYERS
from tests.helpers.exported.shapes import SHAPES
from tests.helpers.marking import rest_all

CASES: dict[str, Case] = {**ACTIVATIONS, **FOLDS, **LAYERS, **SHAPES}
FAST = ["scale_in_disguise", "preactivation", "constant_on_the_left", "split_in_halves"]


OTHERS = ("gemmini", "output-stationary", "vector")


def runs(place: int, case: Case) -> list[tuple[int, str]]:
    """Opsets and accelerators for a case: the newest opset on two accelerators, and an older one on the first."""
    newest = case.opsets[-1]
    older = case.opsets[[0, (len(case.opsets) - 1) // 2][place % 2]]
    return list(dict.fromkeys([(newest, "vta"), (older, "vta"), (newest, OTHERS[place % len(OTHERS)])]))


def chosen(place: int, case: Case) -> tuple[int, str] | None:
    """The run of a case that CI has; five of seven it plans alone.

    The rotations' lengths are prime to those of opsets and of accelerators.
    """
    return None if place % 7 not in (0, 3) else runs(place, case)[(0, 1, -1, 1, -1)[place % 5]]


def all_runs() -> Iterator[Any]:
    for place, (name, case) in enumerate(CASES.items()):
        for run in runs(place, case):
            yield pytest.param(name, *run, marks=[] if run == chosen(place, case) else pytest.mark.all)


def all_plans() -> Iterator[Any]:
    """CI plans half of what it does not run on VTA: a run maps as its plan does, and is held against the same."""
    for place, (name, case) in enumerate(CASES.items()):
        run = chosen(place, case)
        planned = place % 2 == 0 and (run is None or run[1] != "vta")
        yield pytest.param(name, marks=[] if planned else pytest.mark.all)


def check(case: Case, macs: Macs, host: set[str], *, exactly: bool = True) -> None:
    """``exactly``: the host has no other operators than the case says."""
    assert case.share <= macs.share <= 1
    if exactly and case.host is not None:
        assert host <= case.host


def check_run(case: Case, opset: int, preset: str, out: Path) -> None:
    model = case.model(opset).SerializeToString()
    # what the clock chooses of tilings is seen with layers and networks that no exporter has changed
    report = run_model(model, load_accelerator(preset), Options(trace=False, schedule="quick"), out)
    # of a case without layers there is nothing that could be compared
    assert report.verified is (True if report.layers else None)
    assert report.layers or not case.share
    assert min(quality.cosine for quality in report.quantisation) >= case.cosine
    check(case, report.macs, {entry.op for entry in report.host_ops}, exactly=preset == "vta")


@pytest.mark.parametrize("name", rest_all(["scale_in_disguise", "constant_on_the_left", *FAST[1::2]], keep=2))
def test_a_few(name: str, tmp_path: Path) -> None:
    check_run(CASES[name], CASES[name].opsets[0], "vta", tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "opset", "preset"), list(all_runs()))
def test_all_run(name: str, opset: int, preset: str, tmp_path: Path) -> None:
    check_run(CASES[name], opset, preset, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(all_plans()))
def test_the_accelerator_gets_all_layers(name: str) -> None:
    """In the newest opset, also where that is not run."""
    case = CASES[name]
    plan = plan_model(case.model(case.opsets[-1]).SerializeToString(), load_accelerator("vta"))
    check(case, plan.macs, {node.op for node in plan.nodes if node.where in ("host", "both")})


def test_no_two_cases_have_one_name() -> None:
    catalogues: list[Catalogue] = [ACTIVATIONS, FOLDS, LAYERS, SHAPES]
    assert sum(map(len, catalogues)) == len(CASES)
