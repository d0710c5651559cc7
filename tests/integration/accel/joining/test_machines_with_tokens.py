"""Layers that run as one on machines of documents with tokens, however many a queue holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.family_registry import family_of
from accel.joining.joined_launches import join_launches
from accel.program_files.program_container import load_program
from accel.simulate.engine import simulate
from examples.graph import Graph
from tests.helpers.marking import rest_all

_UNITS = ("load", "matrix", "store")
_FREE = 224  # the lowest bit of the words that no instruction of `npu` uses


def with_tokens(limit: int, *, direct: bool) -> Accelerator:
    """The matrix part of `npu`, whose units wait for tokens; ``direct``: loads and stores have queues of their own."""
    machine: dict[str, Any] = load_accelerator("npu").model_dump(mode="json", exclude_none=True)
    kept = {"load_x", "load_w", "load_acc", "multiply", "store_acc", "store_scaled"}
    instructions = [each for each in machine["instructions"] if each["name"] in kept]
    opcode = {"name": "opcode", "lsb": 0, "bits": 8, "value": 18}
    instructions.append({"name": "finish", "kind": "finish", "unit": "matrix", "cycles": "2", "fields": [opcode]})
    for each in instructions:
        others = [unit for unit in _UNITS if unit != each["unit"]]
        others = others if direct or each["unit"] == "matrix" else ["matrix"]
        each["tokens"] = {way: {other: f"{way}_{other}" for other in others} for way in ("pop", "push")}
        names = [f"{way}_{other}" for way in ("pop", "push") for other in others]
        each["fields"] += [{"name": name, "lsb": _FREE + at, "bits": 1} for at, name in enumerate(names)]
    memories = [each for each in machine["memories"] if each["name"] != "v"]
    machine.pop("host", None)
    changed = {"units": list(_UNITS), "instructions": instructions, "memories": memories, "name": "npu-tokens"}
    return parse_accelerator(machine | changed | {"synchronisation": {"kind": "tokens", "limit": limit}})


def three_layers() -> bytes:
    random, graph, channels = np.random.default_rng(3), Graph("three"), 12
    x = graph.input("x", (1, channels, 9, 9))
    for number, (filters, size) in enumerate([(40, 3), (20, 1), (30, 3)]):
        shape = filters, channels, size, size
        weights = random.normal(0, (channels * size**2) ** -0.5, shape).astype(np.float32)
        x = graph.node("Conv", f"conv{number}", [x, graph.constant(f"w{number}", weights)], pads=[size // 2] * 4)
        channels = filters
    graph.output(x, (1, channels, 9, 9))
    return graph.model().SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "direct"), rest_all([(1, True), (2, True), (255, True), (2, False)], keep=2))
def test_layers_are_joined_whatever_a_queue_holds(limit: int, direct: bool, tmp_path: Path) -> None:
    """Catches tokens that a full queue drops, which the clock waits for in vain; and seams that order too little."""
    accelerator = with_tokens(limit, direct=direct)
    run_model(three_layers(), accelerator, Options(trace=False, schedule="quick", launches="separate"), tmp_path)
    apart = load_program(tmp_path / "program.zip")
    joined = join_launches(apart, family_of(accelerator))
    # without a queue between them a load waits for a store through a unit that has no copy of nothing
    assert sum(getattr(step, "joined", False) for step in joined.steps) in ({2} if direct else {0, 1})
    one, other = simulate(apart, {}), simulate(joined, {})
    for name, output in one.outputs.items():
        np.testing.assert_array_equal(output, other.outputs[name])
    assert not other.hazards.races
    assert not any(other.tokens.values())
    assert other.cycles <= one.cycles
