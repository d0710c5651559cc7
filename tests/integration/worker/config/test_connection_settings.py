from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.helpers.commands import cyclops_here
from worker.config.connection_settings import SecretFileError
from worker.config.settings import Settings
from worker.storage.connections import open_redis, open_store
from worker.storage.object_store import Store

SECRET = "correct-horse-7"


@pytest.mark.parametrize(
    "settings",
    [
        {"redis_url": f"redis://user:{SECRET}@localhost"},
        {"redis_url": "redis://localhost", "redis_password": SECRET},
        {"store_url": "s3://bucket", "store_secret_access_key": SECRET},
    ],
    ids=["in the URL", "of Redis", "of the store"],
)
def test_a_secret_is_not_shown(settings: dict[str, str]) -> None:
    made = Settings(**settings)
    assert SECRET not in repr(made)
    assert SECRET not in str(made)
    assert any(SECRET in value for value in made.environment().values())


@pytest.mark.parametrize(
    "settings",
    [
        {"redis_url": f"http://:{SECRET}@localhost"},
        {"redis_password": SECRET},
        {"store_secret_access_key": SECRET},
        {"redis_url": "redis://localhost", "redis_password": SECRET, "redis_password_file": "file"},
        {"redis_url": "redis://localhost", "redis_ca_file": "file"},
        {"redis_url": "rediss://localhost", "redis_certificate_file": "file"},
        {"store_region": "us-east-1"},
        {"store_url": "https://bucket"},
        {"store_url": "s3://Bucket"},
        {"store_url": "s3://bucket/a//b"},
        {"store_url": "s3://bucket/../other"},
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**settings)
    assert SECRET not in str(caught.value)


def test_another_process_reads_the_same_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Settings(
        data=tmp_path, redis_url="redis://h", redis_password=SECRET, store_url="s3://bucket", store_path_style=False
    )
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == made


def test_without_a_url_the_store_is_a_folder(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    open_store(settings).write("k", b"1")
    assert Store(settings.store_dir).read("k") == b"1"


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    settings = Settings(redis_url="redis://localhost", redis_user="me", redis_password_file=tmp_path / "secret")
    with open_redis(settings) as connection:
        given = connection.connection_pool.connection_kwargs
        assert (given["username"], given["password"]) == ("me", SECRET)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(SecretFileError, match="gone"):
        open_redis(Settings(redis_url="redis://localhost", redis_password_file=gone))
    with pytest.raises(SecretFileError, match="gone"):
        open_store(Settings(store_url="s3://bucket", store_secret_access_key_file=gone))
    with pytest.raises(OSError, match="gone"):
        open_store(Settings(store_url="s3://bucket", store_ca_file=gone))
    with pytest.raises(OSError, match="gone"):
        open_redis(Settings(redis_url="rediss://localhost", redis_ca_file=gone))


@pytest.mark.parametrize("command", ["api", "worker"])
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"CYCLOPS_REDIS_PASSWORD_FILE": "gone"}, "gone"),
        ({"CYCLOPS_STORE_URL": "s3://bucket", "CYCLOPS_STORE_CA_FILE": "gone"}, "gone"),
        ({"CYCLOPS_REDIS_CA_FILE": "ca.pem"}, "redis_ca_file"),
    ],
)
def test_the_command_line_says_which_setting_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, setting: dict[str, str], words: str
) -> None:
    for name, value in {"CYCLOPS_REDIS_URL": f"redis://:{SECRET}@127.0.0.1:9", **setting}.items():
        monkeypatch.setenv(name, value)
    done = cyclops_here(command, "--data", tmp_path)
    assert done.returncode == 1
    assert words in done.stderr
    assert SECRET not in done.stderr
