"""Transposed convolutions, and those of volumes, have all their products on the accelerator, in every form."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from tests.helpers.models.exported_files import info, model, node, untyped, weights

Shape = tuple[int, ...]
_T = "ConvTranspose"
FORMS: dict[str, tuple[str, Shape, Shape, dict[str, Any]]] = {
    "doubling": (_T, (1, 8, 6, 6), (8, 16, 2, 2), {"strides": [2, 2]}),
    "padded": (_T, (1, 8, 6, 6), (8, 16, 3, 3), {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    "grouped": (_T, (1, 16, 6, 6), (16, 8, 3, 3), {"strides": [2, 2], "group": 2}),
    "depthwise": (_T, (1, 16, 6, 6), (16, 1, 4, 4), {"strides": [2, 2], "group": 16, "pads": [1] * 4}),
    "dilated": (_T, (1, 8, 6, 6), (8, 16, 3, 3), {"dilations": [2, 2], "strides": [2, 2]}),
    "same upper": (_T, (1, 8, 6, 6), (8, 16, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same lower": (_T, (1, 8, 6, 6), (8, 16, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "a stated shape": (_T, (1, 8, 6, 6), (8, 16, 3, 3), {"strides": [2, 2], "output_shape": [12, 12]}),
    "uneven": (_T, (1, 8, 5, 7), (8, 16, 3, 5), {"strides": [3, 2], "pads": [0, 1, 1, 2]}),
    "lines": (_T, (1, 8, 12), (8, 4, 3), {"strides": [2], "group": 2, "output_padding": [1]}),
    "dilated lines": (_T, (1, 8, 12), (8, 16, 3), {"dilations": [2], "auto_pad": "SAME_UPPER"}),
    "volumes, transposed": (
        _T, (1, 8, 3, 4, 4), (8, 8, 3, 3, 3),
        {"strides": [2] * 3, "group": 2, "pads": [1] * 6, "output_padding": [1] * 3},
    ),
    "volumes": ("Conv", (1, 8, 4, 6, 6), (16, 8, 3, 3, 3), {"pads": [1] * 6}),
    "volumes, dilated": ("Conv", (1, 8, 6, 9, 9), (16, 8, 3, 3, 3), {"strides": [2, 1, 2], "dilations": [2, 2, 1]}),
    "volumes, grouped": ("Conv", (1, 16, 4, 6, 6), (16, 8, 3, 3, 3), {"group": 2}),
    "volumes, depthwise": ("Conv", (1, 16, 4, 6, 6), (16, 1, 3, 3, 3), {"group": 16, "pads": [1] * 6}),
    "volumes, same": ("Conv", (2, 8, 5, 6, 6), (16, 8, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2] * 3}),
    "patches of volumes": ("Conv", (1, 3, 4, 32, 32), (32, 3, 2, 16, 16), {"strides": [2, 16, 16]}),
}  # fmt: skip
QUICK = ("padded", "lines", "volumes, same")


def turns() -> Iterator[Any]:
    """Each form on one of two machines, the other in turn; a form is rewritten before anybody asks for the machine."""
    for at, (name, preset) in enumerate(product(FORMS, ("vta-pynq", "output-stationary"))):
        quick = name in QUICK and preset == "vta-pynq"
        mine = quick or (name not in QUICK and at % 4 in (0, 3))
        marks = [] if quick else [pytest.mark.slow] if mine else [pytest.mark.all]
        yield pytest.param(name, preset, marks=marks)


@pytest.mark.parametrize(("name", "preset"), list(turns()))
def test_all_products_of_a_form_are_on_the_accelerator(name: str, preset: str, tmp_path: Path) -> None:
    op, data, kernel, attributes = FORMS[name]
    outputs = kernel[1] * attributes.get("group", 1) if op == _T else kernel[0]
    made = model(
        [node(op, ["x", "w", "b"], ["y"], name="layer", **attributes)], [info("x", *data)], [untyped("y")],
        [weights("w", *kernel), weights("b", outputs)],
    )  # fmt: skip
    report = run_model(made.SerializeToString(), load_accelerator(preset), Options(trace=False), tmp_path)
    assert (report.verified, report.macs.share) == (True, 1.0)
    assert [quality.sqnr_db > 28 for quality in report.quantisation] == [True]
