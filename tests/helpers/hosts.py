"""Hosts that share a bucket and a Redis behind TLS and a password, and nothing else: each has a disk of its own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from accel.isa.kernels.compiled_kernels import cache_folder
from tests.helpers import processes
from tests.helpers.buckets import BucketServer
from tests.helpers.tls import Certificates, tls_proxy
from worker.storage.redis_server import connect, redis_server

ROOT = Path(__file__).parents[2]
PASSWORD = "correct-horse-9"
_UP_WITHIN = 90.0


@dataclass
class Host:
    """One machine: ``directory`` is its disk, and every process of it belongs to one of its sessions."""

    directory: Path
    environment: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str) -> None:
        folders = {name: self.directory / name for name in ("data", "tmp", "cache", "home", "work")}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        _warm(folders["cache"] / "cyclops")
        own = {
            "CYCLOPS_DATA": str(folders["data"]),
            "TMPDIR": str(folders["tmp"]),
            "XDG_CACHE_HOME": str(folders["cache"]),
            "HOME": str(folders["home"]),
            "PYTHONPATH": str(ROOT),
        }
        with (self.directory / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folders["work"],
                env=os.environ | self.environment | own,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)

    def pids(self) -> list[int]:
        return [pid for process in self.started for pid in (process.pid, *processes.descendants(process.pid))]

    def die(self) -> None:
        """All at once, as when the power fails."""
        pids = self.pids()
        for pid in pids:  # none of them has a moment to tell the others
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.wait()
        assert processes.gone(pids)
        self.started.clear()

    def stop(self) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.started.clear()

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")


def _warm(cache: Path) -> None:
    """A copy of the machine code that the tests' own host has by now: making it takes minutes beside other tests."""
    ours = cache_folder()
    if ours is not None and not cache.exists():
        cache.mkdir(mode=0o700)
        for folder in (ours, *ours.parent.glob("kernels-*")):
            shutil.copytree(folder, cache / folder.name)


class Hosts:
    """An api, and as many hosts of workers as are added."""

    def __init__(self, root: Path, environment: dict[str, str], redis_url: str) -> None:
        self._root = root
        self.redis_url = redis_url
        self._environment = environment
        self.all: dict[str, Host] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.add("api", "-m", "service.cli", "api", "--port", str(port))
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

    def add(self, name: str, *command: str) -> Host:
        """A host with one process of ours; a worker if no command is given."""
        host = self.all[name] = Host(self._root / name, self._environment)
        host.start(*(command or ("-m", "worker.runner")))
        return host

    def workers(self, count: int) -> None:
        """Wait until so many listen."""
        deadline = time.monotonic() + _UP_WITHIN
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                answer = self.client.get("/readyz")
                if (answer.json().get("workers") or 0) == count:
                    return
            assert time.monotonic() < deadline, {name: host.log[-2000:] for name, host in self.all.items()}
            time.sleep(0.2)

    def stop(self) -> None:
        self.client.close()
        for host in self.all.values():
            host.stop()


@contextlib.contextmanager
def hosts(root: Path, bucket: BucketServer, made: Certificates) -> Iterator[Hosts]:
    """An api over a bucket and a Redis that asks for a certificate and a password; no worker yet."""
    with redis_server(root / "redis") as url:
        owner = connect(url)
        owner.config_set("requirepass", PASSWORD)
        owner.close()
        with tls_proxy(made, url.removeprefix("unix://")) as port:
            environment = bucket.environment("hosts") | {
                "CYCLOPS_REDIS_URL": f"rediss://127.0.0.1:{port}",
                "CYCLOPS_REDIS_PASSWORD": PASSWORD,
                "CYCLOPS_REDIS_CA_FILE": str(made.authority),
                "CYCLOPS_REDIS_CERTIFICATE_FILE": str(made.client),
                "CYCLOPS_REDIS_KEY_FILE": str(made.client_key),
            }
            there = Hosts(root, environment, url.replace("unix://", f"unix://:{PASSWORD}@"))
            try:
                yield there
            finally:
                there.stop()
                with connect(there.redis_url) as again:
                    again.config_set("requirepass", "")
