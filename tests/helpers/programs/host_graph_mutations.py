"""Changes host graphs at random and reads them: run by itself, since a crash would take the tests with it.

    python -m tests.helpers.programs.host_graph_mutations SEED COUNT [run]

Prints the number of graphs that were read and refused; with ``run``, those read are run too. The number
of the graph at hand stands in the last line of stderr. Memory is bounded, so that a leak shows as an error.
"""

import copy
import json
import resource
import sys
from collections import Counter
from typing import Any

import numpy as np

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import InvalidProgram, InvalidTensors, SimulationError
from accel.host.host_executor import HostFunctions
from accel.host.host_graph_reader import read_host_graph
from accel.host.host_operators import OPERATORS
from accel.program.program_model import HostStep
from tests.helpers.models.build_models import build
from tests.reference.operators import CODE, CONVERTED, PLAIN

_NUMBERS = [-(2**63), -(2**31), -5, -1, 0, 1, 2, 3, 4, 7, 64, 2**16, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1]
_TEXTS = (
    "int8 uint8 int32 int64 float16 float32 float64 bool constant reflect edge wrap linear cubic nearest align_corners "
    "half_pixel asymmetric floor border zeros SAME_UPPER VALID CRD LEFT x0 c0 node avg max add mul none nan inf "
    "ij,jk->ik ii->i ...i->i -> ij,"
)
_WORDS = _TEXTS.split()
_OTHERS = [None, True, 0.5, -1e300, "nan", "inf", *_WORDS, [], {}, [0]]
_MOST_ELEMENTS = 1 << 16  # of what is run
_MOST_MEMORY = 6 << 30


def texts(accelerator: Accelerator) -> list[dict[str, Any]]:
    """The host graphs of all operators."""
    models = [case.model() for name, case in (PLAIN | CONVERTED | CODE).items() if name != "resize lines smoothly"]
    steps = [step for model in models for step in build(model, accelerator).steps]
    return [json.loads(step.module) for step in steps if isinstance(step, HostStep)]


def mutate(graph: Any, random: np.random.Generator, others: list[Any]) -> Any:
    """A copy of ``graph`` with one or two changes, most of which keep the type of what they change."""
    graph = copy.deepcopy(graph)
    for _ in range(random.integers(1, 3)):
        places = [(holder, key) for holder, key in _places(graph) if key not in ("data", "name", "outputs")]
        holder, key = places[random.integers(len(places))]
        choice = random.integers(20)
        if key == "op":
            holder["op"] = sorted(OPERATORS)[random.integers(len(OPERATORS))]
        elif choice < 16:
            holder[key] = _like(holder[key], random)
        elif choice < 18:
            found = [place for place in _places(others[random.integers(len(others))]) if place[1] == key]
            if found:
                other, at = found[random.integers(len(found))]
                holder[key] = copy.deepcopy(other[at])
        elif choice == 18 and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = _OTHERS[random.integers(len(_OTHERS))]
    return graph


def _like(value: Any, random: np.random.Generator) -> Any:
    """Another value of that type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return [_NUMBERS[random.integers(len(_NUMBERS))], value + random.integers(-2, 3).item()][random.integers(2)]
    if isinstance(value, float):
        return float(_NUMBERS[random.integers(len(_NUMBERS))])
    if isinstance(value, str):
        return _WORDS[random.integers(len(_WORDS))]
    return [value[:-1], value * 2, value[::-1]][random.integers(3)] if isinstance(value, list) else value


def _places(value: Any) -> Any:
    """Every (holder, key) within ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


def run(text: str, random: np.random.Generator) -> str:
    """Run a graph on random tensors, unless they are large."""
    takes, gives = read_host_graph(text).signature()
    if any(np.prod(shape, dtype=object) > _MOST_ELEMENTS for shape, _ in (*takes, *gives)):
        return "large"
    inputs = [random.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8) for shape, dtype in takes]
    arrays = [
        raw.view(np.uint8).view(dtype).reshape(shape) if dtype != "bool" else (raw[..., 0] & 1).astype(bool)
        for raw, (shape, dtype) in zip(inputs, takes, strict=True)
    ]
    try:
        HostFunctions().run(text, arrays)
    except InvalidTensors:
        return "index"
    except SimulationError as error:
        return error.kind
    return "ran"


def main(seed: int, count: int, *, runs: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    graphs = texts(load_accelerator("vta"))
    outcomes: Counter[str] = Counter()
    for number in range(count):
        random = np.random.default_rng([seed, number])
        text = json.dumps(mutate(graphs[random.integers(len(graphs))], random, graphs))
        sys.stderr.write(f"{number}\n")
        sys.stderr.flush()
        try:
            read_host_graph(text)
            outcomes["read"] += 1
        except InvalidProgram as error:
            assert error.detail  # noqa: PT017 # either outcome is right
            outcomes["refused"] += 1
            continue
        if runs:
            outcomes[run(text, random)] += 1
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), runs=len(sys.argv) > 3)
