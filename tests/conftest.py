"""A real service for the tests that ask for one: HTTP, worker and Redis, in processes of their own."""

import contextlib
import fcntl
import gc
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
import hypothesis
import pytest

from accel.isa.kernels.compiled_kernels import cache_folder
from worker.sandbox.fork_client import ForkClient

ROOT = Path(__file__).parent.parent
# an example may load or compile what later ones have, or wait for a busy machine
# the same examples each time: whether a change may land depends on it alone; `make test-all` draws others
hypothesis.settings.register_profile("cyclops", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.register_profile("all", deadline=None)
hypothesis.settings.load_profile("cyclops")
STARTED_WITHIN = 60.0
LONGEST_ID = 200
# what all services of the tests inherit: each would compile the simulators of twelve presets, and most simulate little
os.environ.setdefault("CYCLOPS_WARM_UP", "none")
PREPARE = """
import sys
from accel.catalog.load_accelerator import load_accelerator
from accel.simulate.prepare_simulation import prepare_on_disk
for name in sys.argv[1:]:
    prepare_on_disk(load_accelerator(name))
"""


def pytest_xdist_auto_num_workers() -> int:
    """Processes of the tests: one more than there are processors, because many tests wait for others."""
    return (os.cpu_count() or 1) + 1


# what is loaded and collected stays: to look through it for garbage again and again took a fifth of the collection
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    # these processes keep all processors busy: services and commands that tests start have assistants
    running = sys.modules.get("accel.driver.run_model")
    if running is not None:
        vars(running)["lowering_assistant"] = contextlib.nullcontext


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long values by their length: the processes of the tests tell each other all ids, of which one had 36 MB."""
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > LONGEST_ID else None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file, and those of files that share a service, in one process: ``--dist loadgroup``."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            shared = "service" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("service" if shared else item.nodeid.partition("::")[0]))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the simulators while the processes of the tests collect: each would begin with that."""
    if getattr(session.config.option, "numprocesses", None) and not hasattr(session.config, "workerinput"):
        # a service that a test starts meanwhile waits for it, rather than compile the same
        compiling = threading.Thread(target=keep_machine_code, args=("gemmini", "vta", "output-stationary"))
        compiling.start()
        session.config.add_cleanup(compiling.join)


def keep_machine_code(*presets: str) -> None:
    """Compile the simulators of presets where that has not been done: a job keeps nothing of what it compiles."""
    folder = cache_folder()
    if folder is None:
        return
    sources = [path.read_bytes() for path in sorted((ROOT / "accel" / "isa").rglob("*.py"))]
    ours = hashlib.sha256(b"".join(sources)).hexdigest()[:16]
    with (folder / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests may be about it
        missing = [name for name in presets if not (folder / f"tests.{ours}.{name}").exists()]
        if missing:
            subprocess.run([sys.executable, "-c", PREPARE, *missing], cwd=ROOT, check=True)
            for name in missing:
                (folder / f"tests.{ours}.{name}").touch()


@dataclass(frozen=True)
class Service:
    """A running service; ``lines``: what it has said."""

    url: str
    data: Path
    process: subprocess.Popen[str]
    client: httpx2.Client
    lines: list[str]

    def wait(self, location: str, seconds: float = 120.0) -> dict:
        """The job's record, once it has ended."""
        return self.wait_for(location, {"succeeded", "failed", "canceled"}, seconds)

    def wait_for(self, location: str, states: set[str], seconds: float = 120.0) -> dict:
        deadline = time.monotonic() + seconds
        while (job := self.client.get(location).json())["state"] not in states:
            assert time.monotonic() < deadline, job
            time.sleep(0.05)
        return job

    def submit(self, model: bytes, accelerator: str = "vta", **options: object) -> str:
        """Upload and post; gives the job's location."""
        uploaded = self.client.post("/v1/models", content=model)
        assert uploaded.status_code == 201, uploaded.text
        job = {"model": uploaded.json()["id"], "accelerator": accelerator, "options": options, "fresh": True}
        posted = self.client.post("/v1/jobs", json=job)
        assert posted.status_code == 202, posted.text
        return posted.headers["Location"]


@contextlib.contextmanager
def running_service(data: Path, workers: int = 1, **environment: str) -> Iterator[Service]:
    """`cyclops serve` on a free port; stopped with SIGTERM at the end."""
    keep_machine_code("vta", "gemmini")
    serve = ["serve", "--port", "0", "--data", str(data), "--workers", str(workers)]
    with running([sys.executable, "-m", "service.cli", *serve], data, os.environ | environment) as service:
        yield service


@contextlib.contextmanager
def running(command: list[str], data: Path, environment: Mapping[str, str]) -> Iterator[Service]:
    """A command that serves; stopped with SIGTERM at the end."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    announced = threading.Event()

    def read() -> None:
        for line in process.stderr:
            lines.append(line)
            if "Cyclops on" in line:
                announced.set()
        announced.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        announced.wait(STARTED_WITHIN)
        found = re.search(r"Cyclops on (http://\S+),", "".join(lines))
        assert found, "".join(lines)
        with httpx2.Client(base_url=found[1], timeout=30) as client:
            _wait_ready(client, lines)
            yield Service(found[1], data, process, client, lines)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        process.stderr.close()


def _wait_ready(client: httpx2.Client, lines: list[str]) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while True:
        with contextlib.suppress(httpx2.ConnectError):
            if client.get("/readyz").status_code == 200:
                return
        assert time.monotonic() < deadline, "".join(lines)
        time.sleep(0.1)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests that leave it as it was."""
    with running_service(tmp_path_factory.mktemp("service"), CYCLOPS_WARM_UP="vta") as running:
        yield running


@pytest.fixture
def client(service: Service) -> httpx2.Client:
    return service.client


def assert_problem(response: httpx2.Response, status: int, slug: str, field: str | None = None) -> dict:
    """The response's problem document, after checking its form."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"] == f"/problems/{slug}", problem
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    if field is not None:
        assert problem["field"] == field, problem
    return problem


@pytest.fixture(scope="session")
def is_problem() -> Callable[..., dict]:
    return assert_problem


@pytest.fixture(scope="session")
def start_service() -> Callable[..., contextlib.AbstractContextManager[Service]]:
    return running_service


class _Shared(ForkClient):
    """A fork server that outlives who closes it: another has it next."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def fork_server() -> Iterator[Callable[..., ForkClient]]:
    """Gives the fork server of a module: one for all tests, as it knows nothing of who asks."""
    made: dict[tuple[str, ...], ForkClient] = {}
    yield lambda *arguments: made.setdefault(arguments, _Shared(*arguments))
    for each in made.values():
        ForkClient.close(each)


@pytest.fixture(scope="session")
def apis_share_fork_servers(fork_server: Callable[..., ForkClient]) -> Iterator[None]:
    """Apis in the test's own process; loading the compiler takes longer than most of what they are asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.app.ForkClient", fork_server)
        yield
