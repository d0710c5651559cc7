import ast
import inspect
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from accel.isa.gemmini.timing.machine.machine import run_machine
from accel.isa.gemmini.timing.machine.queues import front
from accel.isa.kernels import compiled_kernels as module
from accel.isa.kernels.compiled_kernels import cache_folder
from accel.isa.native import kept_code
from accel.isa.vta.timing import event_loop
from accel.util import content_cache

ROOT = Path(__file__).parents[4]
TIME_ONE = """
import json, sys, numpy as np
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.native import machine_code
from accel.isa.vta.timing.vta_timing import time_launch
made, compile = [], machine_code.object_code
machine_code.object_code = lambda text: (made.append(text), compile(text))[1]
cycles = time_launch(decode(load_accelerator("vta"), np.array([[3, 0]], np.uint64)), {}).cycles
print(json.dumps([cycles, bool(made)]))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cyclops"


def test_the_folder_is_made_for_its_owner_alone(cache):
    folder = cache_folder()
    assert folder is not None
    assert folder.parent == cache
    for each in (cache, folder):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert cache_folder() == folder


def test_a_folder_that_others_may_enter_is_not_used(cache):
    folder = cache_folder()
    folder.chmod(0o755)
    assert cache_folder() is None
    folder.chmod(0o700)
    cache.chmod(0o777)
    assert cache_folder() is None


def test_a_link_to_a_folder_is_not_used(cache, tmp_path):
    folder = cache_folder()
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert cache_folder() is None


def test_a_folder_of_another_user_is_not_used(cache, monkeypatch):
    assert cache_folder() is not None
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache_folder() is None


def test_where_nothing_can_be_written_there_is_none(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    assert cache_folder() is None


def test_without_a_home_there_is_none(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)

    def homeless():
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None


@pytest.fixture
def package(tmp_path):
    """``kernel`` imports ``constants`` by name, a module of ``inner`` from its package and, in a function, ``late``."""
    package = tmp_path / "ours"
    (package / "inner").mkdir(parents=True)
    (package / "kernel.py").write_text(
        "import numpy\nfrom ours.constants import A\nfrom ours.inner import (\n    layout as at,\n)\n"
    )
    (package / "constants.py").write_text("A = 1\n\ndef a():\n    import ours.late\n")
    (package / "late.py").write_text("from . import kernel\n")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "layout.py").write_text("from .columns import B\n")
    (package / "inner" / "columns.py").write_text("B = 1\n")
    (package / "unrelated.py").write_text("C = 1\n")
    return package


def digest_of(package):
    module._imported.cache_clear()
    module.imports_digest.cache_clear()
    return module.imports_digest(package / "kernel.py", package)


def test_kernels_of_this_package_depend_on_its_modules():
    """Would catch names of modules that are looked for in another folder than they count from: then none is found."""
    source = Path(inspect.getfile(run_machine.function))
    assert Path(inspect.getfile(front.function)) in module.imported_files(source)


@pytest.mark.parametrize(
    "changed", ["kernel.py", "constants.py", "late.py", "inner/__init__.py", "inner/layout.py", "inner/columns.py"]
)
def test_all_that_a_kernel_imports_changes_its_folder(package, changed):
    before = digest_of(package)
    assert digest_of(package) == before
    (package / changed).write_text((package / changed).read_text() + "D = 1\n")
    assert digest_of(package) != before


def test_what_it_does_not_import_leaves_its_folder(package):
    before = digest_of(package)
    (package / "unrelated.py").write_text("C = 2\n")
    assert digest_of(package) == before


def test_a_kernel_depends_on_its_familys_layout_and_on_no_other_family():
    package = ROOT / "accel"
    pending, found = [package / "isa" / "vta" / "timing" / "event_loop.py"], set()
    while pending:
        found.add(path := pending.pop())
        pending += module._imported(path, package) - found
    names = {str(path.relative_to(package)) for path in found}
    assert {"isa/vta/timing/read_channel.py", "isa/vta/timing/clock_columns.py", "util/arrays.py"} <= names
    assert not any("gemmini" in name or "tiling_cost" in name for name in names)


def test_sources_that_cannot_be_read_have_no_key(monkeypatch):
    assert kept_code._key(event_loop.run_clock.function, (), checked=False)

    def packed(*_):
        raise OSError

    monkeypatch.setattr(kept_code, "imports_digest", packed)
    assert kept_code._key(event_loop.run_clock.function, (), checked=False) is None


def time_one(cache_home):
    environment = os.environ | {"XDG_CACHE_HOME": str(cache_home)}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", TIME_ONE], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return run.stdout.strip()


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_a_broken_file_is_compiled_anew(tmp_path):
    assert time_one(tmp_path) == "[25, true]"
    assert time_one(tmp_path) == "[25, false]"
    for file in (tmp_path / "cyclops").glob("compiled-*/*"):
        file.write_bytes(file.read_bytes()[:50])
    assert time_one(tmp_path) == "[25, true]"
    assert time_one(tmp_path) == "[25, false]"


def _scaled(value: int, factor: int) -> int:
    return value * factor


def test_a_full_disk_costs_the_cache_and_nothing_else(cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(content_cache.tempfile, "mkstemp", full)
    assert module.compiled(_scaled)(6, 7) == 42
    assert not list(cache_folder().iterdir())


def test_code_is_kept_for_each_kind_of_arguments(cache):
    kernel = module.compiled(_scaled)
    assert kernel(6, 7) == kernel(np.int32(6), True) * 7 == 42
    assert len(list(cache_folder().iterdir())) == len(kernel.compiled_for) == 1
    assert kernel.checked(6, 7) == 42
    assert len(list(cache_folder().iterdir())) == 2


def _imports_of(path, package):
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = ".".join(path.relative_to(package.parent).parts[: -node.level]) if node.level else ""
            from_ = ".".join(part for part in (home, node.module) if part)
            names |= {from_, *(f"{from_}.{alias.name}" for alias in node.names)}
    files = [package.parent.joinpath(*name.split(".")) for name in names if name.split(".")[0] == package.name]
    return {file for base in files for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()}


@pytest.mark.slow
def test_every_import_of_every_module_is_found():
    package = ROOT / "accel"
    for path in package.rglob("*.py"):
        assert _imports_of(path, package) <= module._imported(path, package), path
