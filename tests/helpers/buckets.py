"""A bucket to test with: an S3-like server on this machine, in an environment of its own beside that of the tests."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from worker.storage.object_store import Store
from worker.storage.s3_bucket import BucketAccess, open_bucket

PYTHON = Path(sys.prefix) / "bucket" / "bin" / "python"
NAME = "records"
_PAGE = 100  # of a listing: a bucket's is 1000
KEY_ID, SECRET = "tester", "not-a-secret"


@dataclass(frozen=True)
class BucketServer:
    """A server that runs; each prefix is a store of its own."""

    endpoint: str
    process: subprocess.Popen[str]

    def environment(self, prefix: str) -> dict[str, str]:
        """The settings of a service whose store is under this prefix."""
        return {
            "CYCLOPS_STORE_URL": f"s3://{NAME}/{prefix}",
            "CYCLOPS_STORE_ENDPOINT": self.endpoint,
            "CYCLOPS_STORE_REGION": "us-east-1",
            "CYCLOPS_STORE_ACCESS_KEY_ID": KEY_ID,
            "CYCLOPS_STORE_SECRET_ACCESS_KEY": SECRET,
        }

    def store(self, prefix: str, *, name: str = NAME, retry_seconds: float = 4.0) -> Store:
        access = BucketAccess(f"s3://{name}/{prefix}", self.endpoint, "us-east-1", None, KEY_ID, SECRET)
        return Store(open_bucket(access, retry_seconds))

    @contextlib.contextmanager
    def faulty(self, **faults: float) -> Iterator[None]:
        """With the faults that ``bucket_app.py`` lists."""
        self._set(faults)
        try:
            yield
        finally:
            self._set(dict.fromkeys(faults, 0))

    def _set(self, faults: dict[str, float]) -> None:
        query = "&".join(f"{name}={value}" for name, value in faults.items())
        _put(f"{self.endpoint}/_faults?{query}")

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """It takes connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def bucket_server(port: int = 0) -> Iterator[BucketServer]:
    """Run a server with an empty bucket; skips the test where its environment is not."""
    if not PYTHON.exists():
        pytest.skip(f"no {PYTHON}, which `make test` makes: no S3-like server")
    process = subprocess.Popen(
        [PYTHON, Path(__file__).parent / "bucket_app.py", str(port)],
        env=os.environ | {"MOTO_S3_DEFAULT_MAX_KEYS": str(_PAGE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
        _put(f"{endpoint}/{NAME}")
        yield BucketServer(endpoint, process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _put(url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10):
        pass
