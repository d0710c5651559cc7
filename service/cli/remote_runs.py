"""Runs of a service's jobs, read over HTTP: ``cyclops compare`` takes them beside folders and files."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from accel.errors import InvalidReport
from accel.report.compare.comparison import MOST_BYTES, Run, read_document, read_report

_JOB = r"[0-9a-f]{32}|latest"
_PATH = re.compile(rf"(?P<before>.*?)/(?:v1/)?jobs/(?P<job>{_JOB})(?:/.*)?")
_SECONDS = 30.0
_MISSING = 404


@dataclass(frozen=True)
class JobAddress:
    """Where a job's results are.

    Attributes:
        url: of the job in the API.
        share: token of a link that opens it, if its address has one.
    """

    url: str
    share: str | None = None


@dataclass(frozen=True)
class Services:
    """The service whose jobs are named by their ids alone.

    Attributes:
        url: its address.
        key: opens its jobs; no other service is told it.
    """

    url: str
    key: str | None = None

    def headers_for(self, address: JobAddress) -> dict[str, str]:
        """Returns the headers with the key, if the job is of this service."""
        ours = urlsplit(self.url)[:2] == urlsplit(address.url)[:2]
        return {"Authorization": f"Bearer {self.key}"} if ours and self.key is not None else {}


def job_address(text: str, service: str, field: str) -> JobAddress | None:
    """Returns where a job is, by its id or the address of one of its pages; None of a text that is neither.

    Raises:
        InvalidReport: it is an address, and not of a job.
    """
    if re.fullmatch(_JOB, text):
        return JobAddress(f"{service.rstrip('/')}/v1/jobs/{text}")
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"}:
        return None
    found = _PATH.fullmatch(parts.path)
    if found is None:
        raise InvalidReport(f"{text} is no address of a job; expected one such as {service}/jobs/ID", field=field)
    share = parse_qs(parts.query).get("share", [None])[0]
    return JobAddress(f"{parts.scheme}://{parts.netloc}{found['before']}/v1/jobs/{found['job']}", share)


def fetch_run(address: JobAddress, services: Services, field: str) -> Run:
    """Returns the run of a job that has succeeded: its report and its accelerator's document.

    Raises:
        InvalidReport: the service does not answer, or refuses; or it answers with something else.
    """
    query = {} if address.share is None else {"share": address.share}
    with httpx2.Client(headers=services.headers_for(address), params=query, timeout=_SECONDS) as client:
        report = read_report(_fetch(client, f"{address.url}/report", field), field)
        try:
            document = read_document(_fetch(client, f"{address.url}/artifacts/accelerator.json", field), field)
        except _MissingError:  # an earlier version made the job, and did not keep it
            document = None
    return Run(report, document)


class _MissingError(InvalidReport):
    """There is nothing at an address."""


def _fetch(client: httpx2.Client, url: str, field: str) -> bytes:
    """Returns what is at the address; of what is too large to be read more than may be."""
    found = bytearray()
    try:
        with client.stream("GET", url) as answer:
            for part in answer.iter_bytes():
                found += part
                if len(found) > MOST_BYTES:
                    break
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise InvalidReport(f"{url} cannot be read: {error}", field=field) from error
    if not answer.is_success:
        kind = _MissingError if answer.status_code == _MISSING else InvalidReport
        raise kind(f"{url} cannot be read: {_reason(answer, bytes(found))}", field=field)
    return bytes(found)


def _reason(answer: httpx2.Response, body: bytes) -> str:
    """Returns why the service refuses, by the problem that it answers with."""
    try:
        problem: Any = httpx2.Response(answer.status_code, content=body).json()
        said = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        said = f"it answers {answer.status_code}"
    if answer.status_code in {401, 403}:
        return f"{said}; --key-file names a file with a key of --service, or give a link that was shared"
    return said
