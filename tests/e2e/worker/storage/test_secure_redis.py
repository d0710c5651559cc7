"""Redis with a password, and behind TLS."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from examples.single import Conv, conv_model
from tests.helpers.tls import Certificates, certificates, tls_proxy, tls_redis
from worker.config.settings import Settings
from worker.storage.connections import open_redis
from worker.storage.redis_server import connect, redis_server

MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
PASSWORD, USER = "correct-horse-7", "worker"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis that asks for a password, with a user of another."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        owner = connect(url)
        owner.acl_setuser(USER, enabled=True, passwords=[f"+{PASSWORD}-user"], commands=["+@all"], keys=["*"])
        owner.config_set("requirepass", PASSWORD)
        try:
            yield url
        finally:
            owner.close()
            with redis.Redis.from_url(url, password=PASSWORD) as again:
                again.config_set("requirepass", "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["proxy", "server"])
def tls_port(request: pytest.FixtureRequest, locked: str, made: Certificates) -> Iterator[int]:
    """A Redis that asks for a certificate and a password; with a TLS of its own, or behind one."""
    server = tls_proxy(made, locked.removeprefix("unix://")) if request.param == "proxy" else tls_redis(made, PASSWORD)
    with server as port:
        yield port


def answers(settings: Settings) -> bool:
    with open_redis(settings, retries=0, timeout=3) as connection:
        return bool(connection.ping())


def test_a_password(locked: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    assert answers(Settings(redis_url=locked, redis_password=PASSWORD))
    assert answers(Settings(redis_url=locked, redis_password_file=tmp_path / "password"))
    assert answers(Settings(redis_url=locked, redis_user=USER, redis_password=f"{PASSWORD}-user"))
    for wrong in ({}, {"redis_password": "guessed"}, {"redis_user": USER, "redis_password": "guessed"}):
        with pytest.raises(redis.RedisError) as caught:
            answers(Settings(redis_url=locked, **wrong))
        assert "guessed" not in str(caught.value)


def test_tls(tls_port: int, made: Certificates) -> None:
    url = f"rediss://127.0.0.1:{tls_port}"
    shown = {"redis_certificate_file": made.client, "redis_key_file": made.client_key}
    whole = {"redis_url": url, "redis_password": PASSWORD, "redis_ca_file": made.authority, **shown}
    assert answers(Settings(**whole))
    for missing in ({"redis_ca_file": None}, {"redis_certificate_file": None, "redis_key_file": None}):
        with pytest.raises(redis.RedisError):
            answers(Settings(**(whole | missing)))
    with pytest.raises(redis.RedisError):
        answers(Settings(redis_url=url.replace("rediss", "redis"), redis_password=PASSWORD))


@pytest.mark.slow
@pytest.mark.all  # hosts of workers have the same, each time
def test_a_service_behind_tls(
    tls_port: int, made: Certificates, tmp_path: Path, start_service: Callable[..., object]
) -> None:
    """The api, a worker and the processes that it forks, none of which shows the password."""
    (tmp_path / "password").write_text(PASSWORD)
    environment = {
        "CYCLOPS_REDIS_URL": f"rediss://127.0.0.1:{tls_port}",
        "CYCLOPS_REDIS_PASSWORD_FILE": str(tmp_path / "password"),
        "CYCLOPS_REDIS_CA_FILE": str(made.authority),
        "CYCLOPS_REDIS_CERTIFICATE_FILE": str(made.client),
        "CYCLOPS_REDIS_KEY_FILE": str(made.client_key),
    }
    with start_service(tmp_path / "data", **environment) as service:
        location = service.submit(MODEL)
        assert service.wait(location)["state"] == "succeeded"
        assert PASSWORD not in service.client.get("/readyz").text
        shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
        assert "-m worker.runner" in shown
        assert PASSWORD not in shown
        said = "".join(service.lines)
    assert PASSWORD not in said
