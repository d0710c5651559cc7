import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from accel.isa import compiled_kernels as module
from accel.isa import numba_dispatcher as made
from accel.isa.compiled_kernels import cache_folder

ROOT = Path(__file__).parents[4]
TIME_ONE = """
import json, sys, numpy as np
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.vta import timing_kernel
from accel.isa.vta.timing.vta_timing import time_launch
cycles = time_launch(decode(load_accelerator("vta"), np.array([[3, 0]], np.uint64)), {}).cycles
stats = timing_kernel.run.dispatcher.stats
print(json.dumps([cycles, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
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


def test_every_source_changes_the_folder(tmp_path):
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "a.py").write_text("A = 1")
    (package / "inner" / "b.py").write_text("B = 1")
    first = module._digest(package)
    (package / "inner" / "b.py").write_text("B = 2")
    second = module._digest(package)
    (package / "inner" / "b.py").rename(package / "inner" / "c.py")
    assert len({first, second, module._digest(package)}) == 3


def test_sources_that_cannot_be_read_have_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        module._digest(tmp_path)


def time_one(cache_home):
    environment = os.environ | {"XDG_CACHE_HOME": str(cache_home)}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", TIME_ONE], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return run.stdout.strip()


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_a_broken_file_is_compiled_anew(tmp_path):
    assert time_one(tmp_path) == "[25, 0, 1]"
    assert time_one(tmp_path) == "[25, 1, 0]"
    for file in (tmp_path / "cyclops").rglob("timing_kernel.run*"):
        file.write_bytes(file.read_bytes()[:50])
    assert time_one(tmp_path) == "[25, 0, 1]"
    assert time_one(tmp_path) == "[25, 1, 0]"


def test_a_full_disk_costs_the_cache_and_nothing_else(cache, monkeypatch):
    dispatcher = made.dispatcher(lambda x: x + 1, cache_folder())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(dispatcher._cache._cache_file), "save", full)
    assert dispatcher(np.int64(1)) == 2
