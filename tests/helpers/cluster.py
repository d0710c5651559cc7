"""Redis, the api and workers as processes of their own, each of which a test may kill and start again."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

from tests.conftest import keep_machine_code
from tests.helpers import processes
from worker.storage.object_store import Store
from worker.storage.redis_server import connect, find_binary

ROOT = Path(__file__).parents[2]
_UP_WITHIN = 90.0


class Cluster:
    """Everything over one directory. Nothing is started again by itself."""

    def __init__(self, root: Path, workers: int, **environment: str) -> None:
        self.data = root / "data"
        self._redis_dir = root / "redis"
        self._logs = root / "logs"
        for directory in (self._redis_dir, self._logs):
            directory.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.redis_url = f"unix://{self._redis_dir}/redis.sock"
        self._environment = environment | {
            "CYCLOPS_DATA": str(self.data),
            "CYCLOPS_REDIS_URL": self.redis_url,
            "XDG_CYCLOPS_TEST": str(root),  # of a kind that the processes of jobs keep
        }
        self._marker = f"XDG_CYCLOPS_TEST={root}".encode()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.worker_names = [f"worker-{number}" for number in range(workers)]
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=30)
        self.redis = connect(self.redis_url)

    @property
    def store(self) -> Store:
        return Store(self.data / "store")

    def start_redis(self) -> None:
        sock = self._redis_dir / "redis.sock"
        sock.unlink(missing_ok=True)
        options = ["--port", "0", "--unixsocket", str(sock), "--dir", str(self._redis_dir), "--save", ""]
        self._start("redis", [str(find_binary()), *options, "--appendonly", "yes"])

    def start_api(self) -> None:
        self._start("api", [sys.executable, "-m", "service.cli", "api", "--port", str(self._port)])

    def start_worker(self, name: str, **environment: str) -> None:
        self._start(name, [sys.executable, "-m", "worker.runner"], **environment)

    def _start(self, name: str, command: list[str], **environment: str) -> None:
        with (self._logs / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | self._environment | environment, stdout=log, stderr=log
            )

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def lives(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def kill(self, name: str) -> None:
        """As the kernel does it when memory runs out; what was its own goes with it or not."""
        self._processes[name].kill()
        self._processes[name].wait()

    def end(self, name: str) -> None:
        """Ask one to leave, and wait for it."""
        self._processes[name].terminate()
        self._processes[name].wait(20)

    def wipe_redis(self) -> None:
        """Kill Redis, and lose all that it had."""
        self.kill("redis")
        for path in self._redis_dir.glob("appendonly*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def supervisors(self) -> list[int]:
        """The processes that attend to jobs, or wait for some."""
        return [pid for name in self.worker_names if self.lives(name) for pid in processes.supervisors(self.pid(name))]

    def doers(self) -> list[int]:
        """The processes that do jobs now."""
        return [pid for name in self.worker_names if self.lives(name) for pid in processes.doers(self.pid(name))]

    def freeze_doer(self, seconds: float = 60) -> int:
        """Stop the process that does a job, once there is one, so that it cannot end before what a test does."""
        deadline = time.monotonic() + seconds
        while not (found := self.doers()):
            assert time.monotonic() < deadline, "no job runs"
            time.sleep(0.02)
        os.kill(found[0], signal.SIGSTOP)
        return found[0]

    def start_what_is_down(self) -> None:
        if not self.lives("redis"):
            self.start_redis()
        if not self.lives("api"):
            self.start_api()
        for name in self.worker_names:
            if not self.lives(name):
                self.start_worker(name)

    def ready(self, seconds: float = _UP_WITHIN) -> bool:
        """Whether jobs can be accepted and run, at once or soon."""
        return self._says_so("/readyz", seconds)

    def answers(self, seconds: float = _UP_WITHIN) -> bool:
        """Whether the api answers, workers or not."""
        return self._says_so("/healthz", seconds)

    def _says_so(self, path: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx2.HTTPError):
                if self.client.get(path).status_code == 200:
                    return True
            time.sleep(0.1)
        return False

    def log(self, name: str) -> str:
        return (self._logs / f"{name}.log").read_text(errors="replace")

    def all_processes(self) -> list[int]:
        """Every process that has our directory in its environment, whoever its parent is."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self._marker in path.read_bytes().split(b"\0") and processes.lives(int(path.parent.name)):
                    found.append(int(path.parent.name))
        return found

    def stop(self) -> None:
        """Ask all to leave, and kill what does not."""
        self.client.close()
        self.redis.close()
        names = [name for name in ("api", *self.worker_names, "redis") if self.lives(name)]
        for name in names:
            self._processes[name].send_signal(signal.SIGTERM)
        for name in names:
            try:
                self._processes[name].wait(20)
            except subprocess.TimeoutExpired:
                self.kill(name)


@contextlib.contextmanager
def running_cluster(root: Path, workers: int = 1, **environment: str) -> Iterator[Cluster]:
    """One that is ready; stopped at the end."""
    keep_machine_code("vta")
    cluster = Cluster(root, workers, **environment)
    try:
        cluster.start_what_is_down()
        assert cluster.ready(), cluster.log("api")
        yield cluster
    finally:
        cluster.stop()
