"""``cyclops accelerator`` and ``cyclops plan``, as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest

from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.document_schema import accelerator_schema
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator, preset_names
from accel.report.documents.plan_documents import Plan
from examples.graph import Graph
from tests.helpers.commands import cyclops_here as cyclops


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = Graph("classifier")
    weight = graph.constant("weight", np.random.default_rng(0).normal(0, 0.2, (16, 10)).astype(np.float32))
    scores = graph.node("MatMul", "dense", [graph.input("x", (4, 16)), weight])
    graph.output(graph.node("Softmax", "softmax", [scores]), (4, 10))
    path = tmp_path / "classifier.onnx"
    path.write_bytes(graph.model().SerializeToString())
    return path


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_list_is_the_catalog() -> None:
    done = cyclops("accelerator", "list")
    assert done.returncode == 0, done.stderr
    for name in preset_names():
        assert load_accelerator(name).title in done.stdout


def test_show_prints_a_document_that_check_takes(tmp_path: Path) -> None:
    wanted = load_accelerator("mvin-mvout")
    for options, ending in ([], "json"), (["--yaml"], "yaml"):
        shown = cyclops("accelerator", "show", "mvin-mvout", *options)
        assert shown.returncode == 0, shown.stderr
        assert parse_accelerator(shown.stdout.encode()) == wanted
        done = cyclops("accelerator", "check", written(tmp_path / f"mine.{ending}", shown.stdout))
        assert done.returncode == 0, done.stderr
        for memory in wanted.memories:
            assert f"{memory.depth * memory.element_bytes:,}" in done.stdout
        for words in (wanted.family, *wanted.units, *(instruction.name for instruction in wanted.instructions)):
            assert words in done.stdout


def test_check_says_who_it_is_as_json(tmp_path: Path) -> None:
    done = cyclops("accelerator", "check", "vta", "--json")
    assert done.returncode == 0
    brief = json.loads(done.stdout)
    assert (brief["family"], len(brief["id"])) == ("vta", 64)


def test_the_schema_is_printed() -> None:
    done = cyclops("accelerator", "schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == accelerator_schema()


BAD = {
    "a value": (accelerator_yaml(load_accelerator("vta")).replace("dtype: int8", "dtype: int9", 1), "memories.1.dtype"),
    "a name": (accelerator_yaml(load_accelerator("vta")).replace("unit: load", "unit: lod", 1), "instructions.0.unit"),
    "a family": (accelerator_yaml(load_accelerator("vta")).replace("family: vta", "family: tpu"), "family"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_document_is_told_with_its_place(name: str, tmp_path: Path) -> None:
    text, path = BAD[name]
    file = written(tmp_path / "mine.yaml", text)
    plain = cyclops("accelerator", "check", file)
    assert (plain.returncode, plain.stdout) == (1, "")
    assert plain.stderr.startswith(f"cyclops: {path}: ")
    done = cyclops("accelerator", "check", file, "--json")
    assert done.returncode == 1
    problem = json.loads(done.stdout)
    assert (problem["type"], problem["field"]) == ("/problems/invalid-accelerator", f"accelerator.{path}")
    assert "Traceback" not in plain.stderr + done.stderr


@pytest.mark.parametrize(
    "text", ["", "a: &x 1", "a: *x", "a: !!python/name:os.system", "[", "vta", "family: vta", "a: 1\na: 2", "\x00"]
)
def test_files_that_are_no_document(text: str, tmp_path: Path) -> None:
    done = cyclops("accelerator", "check", written(tmp_path / "mine.yaml", text))
    assert done.returncode == 1
    assert done.stderr.startswith("cyclops: ")
    assert "Traceback" not in done.stderr


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(b" " * (2 << 20))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for argument in ("tpu", tmp_path, tmp_path / "nothing.yaml", tmp_path / "large.json", tmp_path / "binary.yaml"):
        done = cyclops("accelerator", "check", argument)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
    unknown = cyclops("accelerator", "show", "tpu")
    assert unknown.returncode == 1
    assert all(name in unknown.stderr for name in preset_names())


def test_plan(model: Path, tmp_path: Path) -> None:
    done = cyclops("plan", model, "--accelerator", "vta", "--json")
    assert done.returncode == 0, done.stderr
    plan = Plan.model_validate_json(done.stdout)
    (host,) = [node for node in plan.nodes if node.where == "host" and not node.added]
    assert (host.name, host.reason) == (
        "softmax",
        "Softmax: VTA 16x16 has no instruction for exp or division; the host computes it",
    )
    table = cyclops("plan", model, "--accelerator", "vta")
    assert table.returncode == 0, table.stderr
    assert host.name in table.stdout
    assert "multiply-accumulates on the accelerator" in table.stdout


def test_plans_that_cannot_be_made(model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not ONNX")
    wrong = written(tmp_path / "mine.yaml", BAD["a value"][0])
    for arguments, slug, field in [
        ([tmp_path / "nothing.onnx", "--accelerator", "vta"], "invalid-model", "model"),
        ([tmp_path / "bad.onnx", "--accelerator", "vta"], "invalid-model", "model"),
        ([model, "--accelerator", "tpu"], "invalid-accelerator", "accelerator"),
        ([model, "--accelerator", wrong], "invalid-accelerator", "accelerator.memories.1.dtype"),
        (
            [model, "--accelerator", "vta", "--calibration", tmp_path / "bad.onnx"],
            "invalid-tensors",
            "options.calibration",
        ),
    ]:
        done = cyclops("plan", *arguments, "--json")
        assert done.returncode == 2, done.stderr
        problem = json.loads(done.stdout)
        assert (problem["type"], problem["field"]) == (f"/problems/{slug}", field)
    plain = cyclops("plan", model, "--accelerator", "tpu")
    assert (plain.returncode, plain.stdout) == (2, "")
    assert all(name in plain.stderr for name in preset_names())


@pytest.mark.parametrize(
    ("name", "keys", "wanted"),
    [
        ("gemmini", ["dim=8", "scratchpad_bytes=131072"], {"spad": (16384, (8,)), "acc": (2048, (8,))}),
        ("gemmini-lean", ["dim=32"], {"spad": (8192, (32,)), "acc": (512, (32,))}),
        (
            "vta",
            ["LOG_BLOCK=5", "bus_bytes=16"],
            {"wgt": (256, (32, 32)), "inp": (1024, (1, 32)), "acc": (1024, (1, 32))},
        ),
    ],
)
def test_a_document_is_derived(tmp_path: Path, name: str, keys: list[str], wanted: dict[str, object]) -> None:
    """The sizes are those that bytes divided by the elements of a row give."""
    file = tmp_path / "mine.yaml"
    done = cyclops("accelerator", "derive", name, *[f"--set={key}" for key in keys], "--output", file, "--yaml")
    assert done.returncode == 0, done.stderr
    derived = parse_accelerator(file.read_bytes())
    assert {memory.name: (memory.depth, memory.shape) for memory in derived.memories if memory.name in wanted} == wanted
    assert derived.name == f"{name}-{'-'.join(keys).replace('=', '-')}"
    assert derived.dram.bus_bytes == (16 if name != "vta" else int(keys[1].partition("=")[2]))


@pytest.mark.parametrize(
    ("name", "keys", "said"),
    [
        ("gemmini", ["dimm=8"], "there is no key 'dimm' here; the nearest is dim"),
        ("gemmini", ["dim=12"], "dim must be a power of two; it is 12"),
        ("gemmini", ["dim"], "is not of the form KEY=VALUE"),
        ("vta", ["LOG_BLOCK=9"], "LOG_BLOCK: 9 is outside 0 to 7"),
        ("vta", ["queue_depths.loud=2"], "the nearest is load"),
        ("output-stationary", ["dim=8"], "follow from no configuration"),
    ],
)
def test_what_cannot_be_derived_is_told(name: str, keys: list[str], said: str) -> None:
    done = cyclops("accelerator", "derive", name, *[f"--set={key}" for key in keys])
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
