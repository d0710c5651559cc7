import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis
import yaml

from worker.config.settings import Settings
from worker.storage.redis_server import find_binary

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
COMPOSE_SCHEMA = ["check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
BUCKET = yaml.safe_load((ROOT / "docker-compose.bucket.yml").read_text())


@pytest.mark.parametrize(
    "command",
    [
        [*COMPOSE_SCHEMA, "docker-compose.yml"],
        [*COMPOSE_SCHEMA, "docker-compose.bucket.yml"],
        ["hadolint", "Dockerfile"],
    ],
    ids=["compose", "bucket", "dockerfile"],
)
def test_lint(command: list[str]) -> None:
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_not_run_by_root() -> None:
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    assert "\nUSER 10001:10001\n" in stages[-1]


def test_the_image_gets_every_package() -> None:
    copied = (ROOT / "Dockerfile").read_text()
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    for package in ("accel", "worker", "service", "examples"):
        assert f"COPY {package} {package}\n" in copied
        assert f"!{package}" in allowed


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_may_do_little(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"memory", "pids"} <= set(service["deploy"]["resources"]["limits"])
    assert service["healthcheck"]["test"]


def test_a_worker_may_finish_its_job_and_be_many() -> None:
    worker = COMPOSE["services"]["worker"]
    minutes = int(worker["stop_grace_period"].removesuffix("m"))
    assert minutes * 60 > Settings().job_seconds
    assert not {"container_name", "ports", "hostname"} & set(worker)


def test_a_process_may_start_the_threads_that_its_jobs_may() -> None:
    assert COMPOSE["services"]["worker"]["deploy"]["resources"]["limits"]["pids"] > Settings().job_tasks


def test_secrets_are_files() -> None:
    for document in (COMPOSE, BUCKET):
        for name in ("api", "worker"):
            given = document["services"][name]["environment"]
            secrets = {key: value for key, value in given.items() if re.search("PASSWORD|SECRET", key)}
            assert secrets
            for key, path in secrets.items():
                assert key.endswith("_FILE")
                assert Path(path).name in document["services"][name]["secrets"]
    assert "secrets/" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.slow
def test_redis_asks_for_the_password_and_shows_it_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    socket = tmp_path / "r.sock"
    shell, option, script = COMPOSE["services"]["redis"]["command"]
    script = script.replace("$$", "$").replace("/run/secrets/redis_password", str(tmp_path / "password"))
    script = script.replace("redis-server", f"{find_binary()} --port 0 --unixsocket {socket}")
    with subprocess.Popen([shell, option, script], cwd=tmp_path, stdout=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 60
            while not socket.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            with pytest.raises(redis.AuthenticationError):
                redis.Redis(unix_socket_path=str(socket)).ping()
            assert redis.Redis(unix_socket_path=str(socket), password="hunter2").ping()
            if sys.platform == "linux":
                assert "hunter2" not in Path(f"/proc/{server.pid}/cmdline").read_text()
        finally:
            server.terminate()
