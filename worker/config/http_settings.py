"""Settings of HTTP: authentication, rate limits, hosts, and the headers for browsers."""

from typing import Annotated, Literal

from pydantic import Field

from worker.config.connection_settings import ConnectionSettings

_ORIGIN = r"https?://[A-Za-z0-9.\-\[\]:]+"
_HOST = r"(\*|(\*\.)?[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*|\[[0-9A-Fa-f:.]+\])"


class HttpSettings(ConnectionSettings):
    """The settings of HTTP, authentication and admission."""

    auth: Annotated[
        Literal["auto", "keys", "off"],
        Field(
            description="`keys`: who asks needs a key (`cyclops keys add`), and sees what is of its owner; `off`: all "
            "are one, and see everything that was made so; `auto`: `off` if the api listens on the loopback address "
            "alone, else `keys`. Behind a proxy on the same host say `keys`"
        ),
    ] = "auto"
    auth_cache_seconds: Annotated[
        float, Field(ge=0, le=60, description="how long a key that was revoked may still be let in")
    ] = 2.0
    metrics_open: Annotated[bool, Field(description="whether `/metrics` needs no key where others do")] = False

    rate_reads: Annotated[
        int,
        Field(
            ge=0,
            description="requests that an owner may make in a minute, and at once; 0: any number. Uploads and "
            "submissions have numbers of their own",
        ),
    ] = 6000
    rate_submissions: Annotated[int, Field(ge=0, description="the same of jobs submitted or tried")] = 600
    rate_uploads: Annotated[int, Field(ge=0, description="the same of uploads")] = 120
    rate_by_address: Annotated[
        bool, Field(description="where no keys are needed: whether each address may make so many, not any number")
    ] = False
    most_waiting: Annotated[
        int, Field(ge=0, description="jobs that may wait in all; further ones are answered `queue-full`; 0: any number")
    ] = 10_000
    most_waiting_of_owner: Annotated[int, Field(ge=0, description="the same of one owner's jobs")] = 2_000

    allowed_hosts: Annotated[
        str,
        Field(
            pattern=rf"^({_HOST}( *, *{_HOST})*)?$",
            description="names by which the api may be asked besides those of the loopback address, with any port, as "
            "`cyclops.example, *.lab.example, 192.0.2.1`, or `*`; empty: none, but any where keys are needed",
        ),
    ] = ""
    cors_origins: Annotated[
        str,
        Field(
            pattern=rf"^(\*|({_ORIGIN}( *, *{_ORIGIN})*)?)$",
            description="origins whose pages may ask and write, as `https://a.example, https://b.example`, or `*`; "
            "else none but our own",
        ),
    ] = ""
    content_security_policy: Annotated[
        str | None,
        Field(
            pattern=r"^[\x20-\x7e]*$",
            description="in place of our own, which let the pages and the documentation work and nothing else; empty: "
            "none. Perfetto's viewer keeps its own",
        ),
    ] = None
    frame_ancestors: Annotated[
        str, Field(pattern=r"^[^;,\x00-\x1f\x7f-\U0010ffff]+$", description="who may show our pages in a frame")
    ] = "'none'"
    referrer_policy: Annotated[
        str, Field(pattern="^[a-z-]*$", description="what browsers tell other pages of ours; empty: nothing is said")
    ] = "no-referrer"
    hsts_seconds: Annotated[
        int,
        Field(ge=0, description="how long browsers shall ask over TLS only; 0: nothing is said. Set it behind TLS"),
    ] = 0

    @property
    def origins(self) -> list[str]:
        """The origins one by one."""
        return _parts(self.cors_origins)

    @property
    def hosts(self) -> list[str]:
        """The further names one by one."""
        return _parts(self.allowed_hosts)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
