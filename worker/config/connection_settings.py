"""Settings of the store and of Redis: addresses and credentials."""

import json
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class SecretFileError(OSError):
    """A file that a setting names, and that should hold a secret, cannot be read."""


class ConnectionSettings(BaseSettings):
    """The settings of the store and of Redis. A secret is shown by none of its texts."""

    model_config = SettingsConfigDict(env_prefix="CYCLOPS_", frozen=True, hide_input_in_errors=True)

    data: Annotated[
        Path, Field(description="directory of temporary files, and of the store and the Redis that are not elsewhere")
    ] = Path("data")

    store_url: Annotated[
        str | None,
        Field(
            pattern=r"^s3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*$",
            description="bucket of the store, `s3://bucket` or `s3://bucket/prefix`; without it the folder `store` "
            "under `data`",
        ),
    ] = None
    store_endpoint: Annotated[
        str | None,
        Field(pattern="^https?://", description="URL of an S3-compatible service; else AWS, or `AWS_ENDPOINT_URL`"),
    ] = None
    store_region: Annotated[str | None, Field(description="region of the bucket; else `AWS_REGION`")] = None
    store_path_style: Annotated[
        bool | None, Field(description="whether requests name the bucket in their path, not in the host; else they do")
    ] = None
    store_access_key_id: Annotated[
        str | None, Field(description="who enters the bucket; else `AWS_ACCESS_KEY_ID`, else the machine's role")
    ] = None
    store_secret_access_key: Annotated[
        SecretStr | None, Field(description="the secret of that; else `AWS_SECRET_ACCESS_KEY`")
    ] = None
    store_secret_access_key_file: Annotated[Path | None, Field(description="file that holds the secret instead")] = None
    store_ca_file: Annotated[
        Path | None, Field(description="PEM file of further authorities that vouch for the endpoint")
    ] = None

    redis_url: Annotated[
        str | None,
        Field(
            pattern="^(redis|rediss|unix)://",
            repr=False,  # it may hold a password
            description="Redis to use, `rediss://` with TLS; without it one is started",
        ),
    ] = None
    redis_user: Annotated[str | None, Field(description="who enters Redis; else its default user")] = None
    redis_password: Annotated[SecretStr | None, Field(description="password of Redis, if not in the URL")] = None
    redis_password_file: Annotated[Path | None, Field(description="file that holds the password instead")] = None
    redis_ca_file: Annotated[
        Path | None, Field(description="PEM file of the authorities that vouch for Redis; else the system's")
    ] = None
    redis_certificate_file: Annotated[
        Path | None, Field(description="PEM file of the certificate that we show to Redis")
    ] = None
    redis_key_file: Annotated[Path | None, Field(description="PEM file of that certificate's key")] = None

    @pydantic.model_validator(mode="after")
    def _agree(self) -> Self:
        for name in ("store_secret_access_key", "redis_password"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"give either {name} or {name}_file")
        for place in ("store", "redis"):
            given = [name for name in type(self).model_fields if name.startswith(f"{place}_") and getattr(self, name)]
            if given and getattr(self, f"{place}_url") is None:
                raise ValueError(f"{given[0]} says how to enter {place}_url, which is not set")
        tls = [name for name in ("redis_ca_file", "redis_certificate_file") if getattr(self, name) is not None]
        if tls and not str(self.redis_url).startswith("rediss:"):
            raise ValueError(f"{tls[0]} is for TLS: redis_url must begin with rediss://")
        if (self.redis_certificate_file is None) != (self.redis_key_file is None):
            raise ValueError("redis_certificate_file and redis_key_file belong together")
        return self

    @property
    def store_dir(self) -> Path:
        """Where the objects of the store lie, if they are not in a bucket."""
        return self.data / "store"

    @property
    def redis_dir(self) -> Path:
        """Where the Redis that we start keeps its append-only file."""
        return self.data / "redis"

    def environment(self) -> dict[str, str]:
        """Returns the variables from which another process reads the same settings, secrets included."""
        return {f"CYCLOPS_{name.upper()}": _text(value) for name, value in self if value is not None}


def read_secret(value: SecretStr | None, file: Path | None) -> str | None:
    """Returns the secret from the setting or the file, without the file's last line end; None if neither is set.

    Raises:
        SecretFileError: the file cannot be read.
    """
    if file is None:
        return value.get_secret_value() if value is not None else None
    try:
        return file.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretFileError(f"the secret in {file} cannot be read: {error}") from None


def _text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value) if isinstance(value, str | int | float | Path) else json.dumps(value)
