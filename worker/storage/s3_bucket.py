"""Clients of an S3-compatible bucket, with time limits, as the backend of the store.

What no setting says is taken from the standard ``AWS_*`` variables, and from the machine's role where there is one.
"""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from obstore.store import S3Store

if TYPE_CHECKING:  # not there at run time
    from obstore.store import BackoffConfig, ClientConfig, RetryConfig, S3Config

# a part of a blob needs its time on a slow line; to reach the bucket at all does not
_BLOB_SECONDS = 60.0
_CONNECT_SECONDS = 2.0


class BucketAccess(NamedTuple):
    """Where a bucket is, and how to enter it; None: as the ``AWS_*`` variables say."""

    url: str
    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    ca_file: Path | None = None


class Bucket(NamedTuple):
    """Two clients of one bucket."""

    records: S3Store
    """for small objects: a request that is not answered fails after the retry_seconds, its repetitions included"""
    blobs: S3Store
    """for what is streamed: a minute without a byte is waited for"""


def open_bucket(access: BucketAccess, retry_seconds: float) -> Bucket:
    """Returns the bucket without sending anything; requests for small objects fail after ``retry_seconds``.

    Raises:
        OSError: the file of certificates cannot be read.
    """
    certificates = access.ca_file.read_bytes() if access.ca_file else None
    return Bucket(
        _client(access, certificates, retry_seconds / 2, retry_seconds / 2),
        _client(access, certificates, _BLOB_SECONDS, retry_seconds / 2),
    )


def _client(access: BucketAccess, certificates: bytes | None, quiet: float, retries: float) -> S3Store:
    """Returns a client that waits ``quiet`` seconds for a byte, and retries a request for ``retries`` seconds."""
    connect = min(_CONNECT_SECONDS, retries / 2)
    client: ClientConfig = {
        "timeout": timedelta(days=1),  # of a whole transfer
        "read_timeout": timedelta(seconds=quiet),
        "connect_timeout": timedelta(seconds=connect),
    }
    if certificates is not None:
        client["root_certificate"] = certificates
    config: S3Config = {"conditional_put": "etag", "disable_bulk_delete": True}
    if access.endpoint is not None:
        config["endpoint"] = access.endpoint
        client["allow_http"] = access.endpoint.startswith("http://")
    if access.region is not None:
        config["region"] = access.region
    if access.path_style is not None:
        config["virtual_hosted_style_request"] = not access.path_style
    if access.access_key_id is not None:
        config["access_key_id"] = access.access_key_id
    if access.secret_access_key is not None:
        config["secret_access_key"] = access.secret_access_key
    backoff: BackoffConfig = {"init_backoff": timedelta(seconds=0.05), "max_backoff": timedelta(seconds=connect)}
    retry: RetryConfig = {"backoff": backoff, "max_retries": 50, "retry_timeout": timedelta(seconds=retries)}
    return S3Store.from_url(access.url, config=config, client_options=client, retry_config=retry)
