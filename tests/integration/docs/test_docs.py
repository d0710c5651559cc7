"""The documents: what they name exists, and the recipe for a pass works as it is written."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tvm import tirx
from typer.core import TyperGroup
from typer.main import get_command

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.ir.tir_walk import collect
from accel.lowering.pipeline import RegionStage
from accel.simulate.engine import simulate
from accel.trace.trace_builder import make_trace
from examples.conv224 import conv224
from service.cli.commands import app
from tests.helpers.models.build_models import build, lower, regions

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECIPE = ROOT / "docs" / "adding-a-pass.md"
MADE_BY_THE_READER = {
    "accel/lowering/codegen/unit_loops.py",
    "tests/integration/accel/lowering/codegen/test_unit_loops.py",
}
ROOMS = ("accel", "worker", "service", "examples", "tests", "bench", "docs", "openapi", ".ci")


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def named(pattern: str) -> list[tuple[str, str]]:
    """Every match of ``pattern`` in the documents, with the document it is in."""
    found = {(path.relative_to(ROOT).as_posix(), m) for path in DOCUMENTS for m in re.findall(pattern, text_of(path))}
    return sorted(found)


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) < 150


def test_every_path_exists() -> None:
    rooms = "|".join(map(re.escape, ROOMS))
    paths = named(rf"(?<![\w./-])((?:{rooms})/[\w./*-]*\w/?)")
    assert len(paths) > 50
    missing = [(where, path) for where, path in paths if path not in MADE_BY_THE_READER and not list(ROOT.glob(path))]
    assert not missing


def test_every_relative_link_leads_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text_of(document)):
            assert "://" in target or (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    used = named(r"(?:`|\$ )make ([a-z-]+)")
    assert used
    assert not [(where, target) for where, target in used if target not in targets]


def test_every_command_and_option_exists() -> None:
    commands = get_command(app).commands
    used = named(r"(?:`|\$ )(?:\.venv/bin/)?cyclops ([a-z]+)([^`\n]*)")
    assert used
    for where, (command, arguments) in used:
        assert command in commands, f"{where}: cyclops {command}"
        found = commands[command]
        if isinstance(found, TyperGroup):
            word = arguments.split()[0]
            assert word in found.commands, f"{where}: cyclops {command} {word}"
            found = found.commands[word]
        known = {option for parameter in found.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", arguments)) <= known, f"{where}: cyclops {command}{arguments}"


def test_no_document_names_a_machine() -> None:
    assert not named(r"(/work/\S*|/tmp/\S*|/root/\S*|/home/\S*)")


def test_the_page_on_pragmas_shows_the_words_that_come_out() -> None:
    """The decoded tile and the cycles of the convolution that the page follows."""
    page = text_of(ROOT / "docs" / "pragmas.md")
    program = build(conv224(), load_accelerator("vta"), settled=True)
    simulation = simulate(program, {}, function=False)
    assert f"vta: {simulation.cycles:,} cycles" in page
    row = r"^\| `([0-9a-f]{16}) ([0-9a-f]{16})` \| (\w+) \| (\w+) \| (\d+) \| (\d+) \| ([^|]*) \|$"
    rows = re.findall(row, page, re.MULTILINE)
    records = make_trace(program, simulation).page(1, len(rows))
    assert len(rows) == 9
    for (high, low, unit, op, start, end, fields), words, record in zip(
        rows, program.words[1:10], records, strict=True
    ):
        assert [int(low, 16), int(high, 16)] == words.tolist()
        assert (unit, op, int(start), int(end)) == (record["unit"], record["op"], record["start"], record["end"])
        shown = dict(re.findall(r"(\w+)=(-?\d+)", fields))
        assert shown.items() <= {name: str(value) for name, value in record["fields"].items()}.items()


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text_of(RECIPE), re.MULTILINE | re.DOTALL)


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The files of the recipe as modules, by path, importable while the test runs."""
    modules: dict[str, ModuleType] = {}
    for block in blocks():
        path = re.match(r"# (\S+\.py)\n", block)
        if path is None:
            continue
        name = path[1].removesuffix(".py").replace("/", ".")
        modules[path[1]] = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, modules[path[1]])
        exec(compile(block, path[1], "exec"), vars(modules[path[1]]))
    return modules


def test_the_recipe_writes_the_files_that_it_names(recipe: dict[str, ModuleType]) -> None:
    assert set(recipe) == MADE_BY_THE_READER


@pytest.mark.slow
def test_the_tests_of_the_recipe_pass(recipe: dict[str, ModuleType]) -> None:
    tests = [
        function
        for module in recipe.values()
        for name, function in vars(module).items()
        if name.startswith("test_") and function.__module__ == module.__name__
    ]
    assert len(tests) == 2
    for test in tests:
        test()


def test_the_line_of_the_recipe_is_a_stage(recipe: dict[str, ModuleType]) -> None:
    (line,) = (block for block in blocks() if block.startswith("RegionStage("))
    names = {"RegionStage": RegionStage} | vars(recipe["accel/lowering/codegen/unit_loops.py"])
    stage = eval(line, names)
    accelerator = load_accelerator("vta")
    (function,) = regions(stage.run(lower(conv224(), accelerator), Target(accelerator)))
    assert all(int(loop.extent) > 1 for loop in collect(function.body, tirx.For))
