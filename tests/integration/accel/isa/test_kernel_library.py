"""Object code of kernels between processes: what it depends on, damage, writers at one time, and the same bits."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.explicit import document_function
from accel.isa.explicit.document_function import source_of
from accel.isa.family_registry import family_of
from accel.isa.kernels import kernel_library as module
from accel.isa.kernels.kernel_library import find_kernel, kernel_key, load_kernel
from accel.util.arrays import aligned_zeros
from tests.helpers.marking import rest_all

ROOT = Path(__file__).parents[4]
LOAD = """
import sys, logging
logging.basicConfig(level="INFO")
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.family_registry import family_of
from accel.isa.kernels.kernel_library import load_kernel
accelerator = load_accelerator("vector")
print("ready", flush=True)
sys.stdin.readline()
for source in family_of(accelerator).kernel_sources(accelerator):
    load_kernel(source)
"""
VECTOR = load_accelerator("vector")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a process that has loaded no kernel; returns where their files will be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_loaded", {})
    return tmp_path / "cyclops"


def files(cache: Path) -> list[Path]:
    return sorted(cache.glob("kernels-*/*"))


def started(cache_home: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache_home)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", LOAD], cwd=ROOT, env=environment, text=True, **pipes)


def compilations(process: subprocess.Popen[str]) -> int:
    """Lets the process go on; returns how many kernels it has compiled."""
    _, said = process.communicate("go\n")
    assert process.returncode == 0, said
    return said.count("compiled the kernel")


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_damaged_code_is_compiled_again(tmp_path: Path) -> None:
    assert [compilations(started(tmp_path)) for _ in range(2)] == [1, 0]
    (file,) = files(tmp_path / "cyclops")
    whole = file.read_bytes()
    file.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    assert compilations(started(tmp_path)) == 1
    assert file.read_bytes() == whole


@pytest.mark.slow
def test_two_processes_that_compile_at_one_time_leave_one_whole_file(tmp_path: Path) -> None:
    processes = [started(tmp_path) for _ in range(2)]
    for process in processes:
        process.stdout.readline()  # type: ignore[union-attr]
    for process in processes:
        process.stdin.write("go\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    assert sum(compilations(process) for process in processes) in {1, 2}
    assert len(files(tmp_path / "cyclops")) == 1
    assert compilations(started(tmp_path)) == 0


@pytest.mark.slow
def test_damage_of_any_kind_is_no_entry(fresh: Path) -> None:
    source = source_of(VECTOR)
    load_kernel(source)
    (file,) = files(fresh)
    whole = file.read_bytes()
    for bad in (b"", whole[:-1], whole + b"\0", whole[:9] + bytes(len(whole) - 9)):
        file.write_bytes(bad)
        module._loaded.clear()
        assert not find_kernel(source)
    other = source_of(load_accelerator("mvin-mvout"))
    file.with_name(kernel_key(other)).write_bytes(whole)  # under the key of another
    assert not find_kernel(other)
    file.write_bytes(whole)
    assert find_kernel(source)


@pytest.mark.slow
def test_where_others_may_write_nothing_is_read(fresh: Path) -> None:
    load_kernel(source_of(VECTOR))
    module._loaded.clear()
    (file,) = files(fresh)
    file.parent.chmod(0o777)
    assert not find_kernel(source_of(VECTOR))
    file.parent.chmod(0o700)
    assert find_kernel(source_of(VECTOR))


@pytest.mark.slow
def test_a_disk_that_takes_nothing_costs_a_compilation_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(module, "_loaded", {})
    caplog.set_level(logging.INFO)
    for _ in range(2):
        load_kernel(source_of(VECTOR))
    assert caplog.text.count("compiled the kernel") == 1


def test_documents_that_differ_in_time_and_size_share_a_kernel_and_others_do_not() -> None:
    first = VECTOR.memories[0]
    larger = VECTOR.model_copy(
        update={
            "name": "larger",
            "clock_mhz": 9.0,
            "memories": (first.model_copy(update={"depth": first.depth * 2}), *VECTOR.memories[1:]),
            "instructions": tuple(each.model_copy(update={"cycles": "7"}) for each in VECTOR.instructions),
        }
    )
    assert source_of(larger) == source_of(VECTOR)
    wider = first.model_copy(update={"shape": (*first.shape[:-1], first.shape[-1] * 2)})
    other = VECTOR.model_copy(update={"memories": (wider, *VECTOR.memories[1:])})
    assert kernel_key(source_of(other)) != kernel_key(source_of(VECTOR))
    vta, small = (load_accelerator(name) for name in ("vta", "vta-8"))
    buffers = vta.model_copy(
        update={"memories": tuple(m.model_copy(update={"depth": m.depth // 2}) for m in vta.memories)}
    )
    kernels = [family_of(each).kernel_sources(each) for each in (vta, buffers, small)]
    assert kernels[0] == kernels[1] != kernels[2]


def test_the_key_changes_with_the_processor_and_with_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(VECTOR)
    keys = [kernel_key.__wrapped__(source)]
    monkeypatch.setattr(module, "imports_digest", lambda _: "other sources")
    keys.append(kernel_key.__wrapped__(source))
    monkeypatch.setattr(module, "_environment", lambda: "another processor")
    keys.append(kernel_key.__wrapped__(source))
    assert len(set(keys)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_all(["mvin-mvout", "vector"]))
def test_linked_code_gives_the_bits_of_code_that_tvm_runs_itself(
    name: str, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerator = load_accelerator(name)
    random = np.random.default_rng(0)
    contents = [random.integers(0, 256, 64, np.uint8) for _ in accelerator.memories]
    table = random.integers(0, 3, (64, document_function.table_width(document_function.sorts_of(accelerator))))
    source = source_of(accelerator)
    target = tvm.target.Target({"kind": "llvm", "mcpu": module.host_cpu()})
    own = tvm.compile(tvm.IRModule({"launch": source.build(source.text)}), target=target)["launch"]
    results = []
    for kernel in (own, load_kernel(source)):
        dram = aligned_zeros(1 << 16)
        dram[:] = np.random.default_rng(1).integers(0, 256, len(dram), np.uint8)
        drams = [dram.view(dtype) for dtype in document_function.dram_types(accelerator)]
        memories = []
        for memory, start in zip(accelerator.memories, contents, strict=True):
            array = aligned_zeros(memory.depth * memory.element_bytes)
            array[: len(start)] = start
            memories.append(array.view(memory.dtype))
        arguments = aligned_zeros(table.size * 8).view(np.int64).reshape(table.shape)
        arguments[:] = table
        kernel(arguments, *drams, *memories)
        results.append([dram.tobytes(), *(each.tobytes() for each in memories)])
    assert results[0] == results[1]
    assert any(each[:64] != start.tobytes() for each, start in zip(results[0][1:], contents, strict=True))
    assert files(fresh)
