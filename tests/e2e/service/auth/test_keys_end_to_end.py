"""Keys, from the command line to two apis over one store."""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from service.cli.commands import app
from tests.conftest import ROOT
from tests.helpers.cluster import Cluster
from tests.helpers.idle_service import quiet_service
from worker.identity.secret_tokens import KEY, is_well_formed


def keys(data: Path, *arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, ["keys", *arguments, "--data", str(data)])
    assert done.exit_code == status, done.output
    return done.stdout


def test_a_key_is_shown_once(tmp_path: Path) -> None:
    text = keys(tmp_path, "add", "laptop", "--owner", "alice").strip()
    assert is_well_formed(text, KEY)
    keys(tmp_path, "add", "build" * 20)
    listed = json.loads(keys(tmp_path, "list", "--json"))
    assert [(key["name"], key["revoked"]) for key in listed] == [("laptop", False), ("build" * 20, False)]
    assert listed[0]["owner"] == "alice"
    assert listed[1]["owner"] == listed[1]["id"]
    keys(tmp_path, "revoke", listed[0]["id"])
    assert [key["revoked"] for key in json.loads(keys(tmp_path, "list", "--json"))] == [True, False]
    shown = keys(tmp_path, "list")
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["id", "name", "owner", "made", "(UTC)", "state"]
    assert [[line[0], line[1], line[2], line[4]] for line in lines[1:]] == [
        [listed[0]["id"], "laptop", "alice", "revoked"],
        [listed[1]["id"], "build" * 20, listed[1]["id"], "active"],
    ]
    for output in (json.dumps(listed), shown):
        assert text not in output
        assert "sha256" not in output


@pytest.mark.parametrize(
    "arguments", [("revoke", "0" * 16), ("revoke", "../x"), ("add", ""), ("add", "a", "--owner", "a/b")]
)
def test_what_cannot_be_done(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    keys(tmp_path, *arguments, status=1)


def answers_within(url: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{url.rstrip('/')}/healthz").is_success:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def another_api(data: Path, **environment: str) -> Iterator[str]:
    """`cyclops api` over the store and Redis of a service that runs; gives its URL."""
    redis = f"unix://{data.resolve()}/redis/redis.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "api", "--port", "0", "--data", str(data)],
        cwd=ROOT,
        env=os.environ | environment | {"CYCLOPS_REDIS_URL": redis},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = next(line for line in process.stderr if "Cyclops on" in line)
        reader = threading.Thread(target=lambda: [None for _ in process.stderr])
        reader.start()
        url = re.search(r"http://[^\s,]+", line)[0]
        answers_within(url, 30)
        yield url
    finally:
        process.terminate()
        process.wait(20)
        reader.join()
        process.stderr.close()


@pytest.mark.slow
def test_a_revoked_key_is_out_everywhere(tmp_path: Path) -> None:
    """While it is being used, against two apis; another key of the same owner goes on."""
    with (
        quiet_service(tmp_path, auth="keys") as quiet,
        another_api(tmp_path, CYCLOPS_AUTH="keys") as other,
        httpx2.Client(timeout=10) as client,
    ):
        urls = (str(quiet.client.base_url).rstrip("/"), other)
        text, stays = (keys(tmp_path, "add", name, "--owner", "alice").strip() for name in ("goes", "stays"))

        def status(url: str, key: str) -> int:
            return client.get(f"{url}/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code

        assert [status(url, key) for url in urls for key in (text, stays)] == [200] * 4
        (key_id,) = [key["id"] for key in json.loads(keys(tmp_path, "list", "--json")) if key["name"] == "goes"]
        keys(tmp_path, "revoke", key_id)
        deadline = time.monotonic() + 60
        while [status(url, text) for url in urls] != [401, 401]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert [status(url, key) for url in urls for key in (text, stays)] == [401, 200, 401, 200]


@pytest.mark.slow
def test_without_redis_keys_and_limits_hold(tmp_path: Path) -> None:
    """The api counts for itself then, and keys are in the store: the same key opens, and nothing is a 500."""
    cluster = Cluster(tmp_path, workers=0, CYCLOPS_AUTH="keys", CYCLOPS_RATE_READS="20")
    try:
        cluster.start_redis()
        cluster.start_api()
        answers_within(str(cluster.client.base_url), 60)
        headers = {"Authorization": f"Bearer {keys(cluster.data, 'add', 'one').strip()}"}
        assert cluster.client.get("/v1/jobs", headers=headers).headers["RateLimit"].startswith('"reads";r=19;')
        cluster.wipe_redis()
        statuses = [cluster.client.get("/v1/jobs", headers=headers).status_code for _ in range(25)]
        assert set(statuses[:20]) == {200}
        assert 429 in statuses[20:]
        assert cluster.client.get("/v1/jobs").status_code == 401
        cluster.start_redis()
        deadline = time.monotonic() + 20
        while cluster.client.get("/v1/jobs", headers=headers).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        cluster.stop()
