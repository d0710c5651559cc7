"""Uploads are looked into elsewhere: the api neither fails nor grows with them."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from examples.single import Conv, conv_model
from tests.helpers.idle_service import quiet_service

Check = Callable[..., dict]
MIB = 1 << 20


def dense(elements: int) -> bytes:
    """A matrix product with so many weights in 32 bits."""
    shape = (1024, elements // 1024)
    weights = numpy_helper.from_array(np.zeros(shape, np.float32), "w")
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, extent))
        for name, extent in zip("xy", shape, strict=True)
    )
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def resident(process: int) -> tuple[int, int]:
    """Bytes that the process has in memory, and the most that it had."""
    status = Path(f"/proc/{process}/status").read_text()
    return tuple(int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) << 10 for name in ("VmRSS", "VmHWM"))


@contextlib.contextmanager
def api(data: Path, **environment: str) -> Iterator[tuple[httpx2.Client, int]]:
    """An api with no queue behind it, and its process."""
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "api", "--port", "0", "--data", str(data)],
        cwd=Path(__file__).parents[4],
        env=os.environ | {"CYCLOPS_REDIS_URL": "unix:///nowhere", "CYCLOPS_LOG_LEVEL": "ERROR"} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            url = next(found[0] for line in process.stderr if (found := re.search(r"http://[\w.:]+", line)))
            with httpx2.Client(base_url=url, timeout=60, transport=httpx2.HTTPTransport(retries=20)) as client:
                yield client, process.pid
        finally:
            process.terminate()


SMALL = conv_model(Conv(16, 16, 8, 8)).SerializeToString()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_api_loads_no_compiler_and_does_not_grow_with_a_model_of_100_mb(tmp_path: Path) -> None:
    model = dense(25 * MIB)
    with api(tmp_path) as (client, process):
        for each in client.get("/v1/accelerators").json()["items"]:
            document = client.get(f"/v1/accelerators/{each['id']}")
            assert document.status_code == 200
            assert client.post("/v1/accelerators", content=document.content).status_code == 201
        assert client.post("/v1/models", content=SMALL).status_code == 201
        loaded = Path(f"/proc/{process}/maps").read_text()
        now, _ = resident(process)
        assert client.post("/v1/models", content=model).status_code == 201
        _, most = resident(process)
    assert not [name for name in ("llvmlite", "tvm", "onnx") if f"/{name}/" in loaded]
    # 100 to 111 by machine; with LLVM or TVM it would be more
    assert now < 130 * MIB, now >> 20
    # the store sends a file in parts of 5 MiB, up to twelve at a time
    assert most - now < 80 * MIB, (now >> 20, most >> 20)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit the address space")
def test_an_upload_that_takes_more_than_it_may(tmp_path: Path, is_problem: Check) -> None:
    with quiet_service(tmp_path, inspection_memory_bytes=700 * MIB) as quiet:
        problem = is_problem(quiet.client.post("/v1/models", content=dense(50 * MIB)), 422, "inspection-failed", "body")
        assert "memory" in problem["detail"]
        assert quiet.client.post("/v1/models", content=SMALL).status_code == 201


@pytest.mark.slow
def test_many_uploads_at_once(client: httpx2.Client) -> None:
    models = [conv_model(Conv(16, 16, 8, 8 + number % 4)).SerializeToString() for number in range(60)]
    with ThreadPoolExecutor(30) as threads:
        answers = list(threads.map(lambda model: client.post("/v1/models", content=model), models))
    assert {answer.status_code for answer in answers} == {201}
