"""The nest that a pragma numbers can be followed: from where it is set to the calls that replace it."""

import json
import re

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.ir.function_attributes import NESTS
from examples.single import Conv, conv_model
from tests.helpers.models.build_models import lower, regions
from tests.integration.accel.lowering.partition.test_residual import block

_SET = re.compile(r'annotations=\{[^}]*"(pragma_\w+)": (\d+)')
_CARRIED = re.compile(r'T\.attr\(\w+, "(pragma_\w+)", (\d+)\)')
_CALLED = re.compile(r'T\.call_extern\("int32", "(\w+)".*"site (\d+)"\)')
MODELS = {
    "addition": lambda: block((1, 16, 6, 6), 3),
    "convolution": lambda: conv_model(Conv(32, 32, 16, 16, kernel=(3, 3), pads=(1, 1, 1, 1))),
}


def pragmas(pattern: re.Pattern[str], text: str, known: set[str]) -> list[tuple[str, int]]:
    return [(name, int(number)) for name, number in pattern.findall(text) if name in known]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["vta", "gemmini", "output-stationary", "vector"])
def test_every_call_answers_to_the_pragma_of_its_nest(name: str, model: str) -> None:
    """By the texts and the accelerator's document, which know nothing of what ``inject`` says that it did."""
    accelerator = load_accelerator(name)
    scheduled, flat, injected = (
        regions(lower(MODELS[model](), accelerator, stage)) for stage in ("schedule", "flatten", "inject")
    )
    assert len(scheduled) == len(flat) == len(injected) > 0
    for before, between, after in zip(scheduled, flat, injected, strict=True):
        placed = pragmas(_SET, before.script(), accelerator.pragmas)
        carried = pragmas(_CARRIED, between.script(), accelerator.pragmas)
        assert [number for _, number in placed] == list(range(1, len(placed) + 1))
        assert carried
        assert set(carried) <= set(placed)
        nests = json.loads(str(after.attrs[NESTS]))
        assert [(nest["pragma"], nest["nest"]) for nest in nests] == carried
        called = {int(site): call for call, site in _CALLED.findall(after.script())}
        assert [site for nest in nests for site in nest["sites"]] == sorted(called)
        for nest in nests:
            assert nest["sites"], nest
            for site in nest["sites"]:
                assert accelerator.instruction(called[site]).pragma == nest["pragma"], (nest, site)
