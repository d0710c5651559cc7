"""The service as ``cyclops serve`` runs it, in processes of its own over a directory of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from loading.usage import command, cpu_seconds, descendants, name

ROOT = Path(__file__).resolve().parents[2]
_UP_WITHIN = 120.0
_QUIET = 5.0  # seconds; a worker looks every two seconds whether there is more to compile


@dataclass
class Service:
    """A service that runs.

    Attributes:
        port: where the api listens.
        api: the process of the api.
        data: the directory.
        api_seconds: from the start of the command until the api answered.
        worker_seconds: until a worker listened.
    """

    port: int
    api: int
    data: Path
    api_seconds: float = 0.0
    worker_seconds: float = 0.0
    environment: dict[str, str] = field(default_factory=dict)

    def workers(self) -> list[int]:
        """The processes of the workers."""
        return [pid for pid in self._children() if "-m worker.runner" in command(pid)]

    def settle(self) -> None:
        """Wait until the workers have compiled ahead what they compile ahead, and do nothing."""
        quiet = time.monotonic()
        spent = 0.0
        while time.monotonic() - quiet < _QUIET:
            time.sleep(0.25)
            now = sum(map(cpu_seconds, self.workers()))
            if now > spent + 0.02 or any("ahead" in name(pid) for one in self.workers() for pid in descendants(one)):
                quiet, spent = time.monotonic(), now

    def inspectors(self) -> list[int]:
        """The processes that fork one for each upload to look into."""
        return [pid for pid in self._children() if "worker.sandbox.fork_server" in command(pid)]

    def _children(self) -> list[int]:
        parents = {pid: _parent(pid) for pid in descendants(self.api)}
        return [pid for pid, parent in parents.items() if parent == self.api]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Workers take no job inside the context."""
        workers = self.workers()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


@contextlib.contextmanager
def service(data: Path, workers: int, **settings: str) -> Iterator[Service]:
    """Run it until the context ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {"CYCLOPS_DATA": str(data), "PYTHONPATH": str(ROOT)} | settings
    options = ["--port", str(port), "--workers", str(workers)]
    begin = time.monotonic()
    data.mkdir(parents=True, exist_ok=True)
    with (data / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", *options], cwd=ROOT, env=environment, stdout=log, stderr=log
        )
    try:
        found = Service(port, process.pid, data, environment=settings)
        _until(port, "/healthz", process)
        found.api_seconds = time.monotonic() - begin
        _until(port, "/readyz", process)
        found.worker_seconds = time.monotonic() - begin
        yield found
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(port: int, path: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _UP_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as ok:
            if ok.status == 200:
                return
        time.sleep(0.02)
    raise RuntimeError(f"the service does not come up: {path}")
