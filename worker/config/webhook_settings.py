"""Settings of webhooks: the addresses, ports and retries of requests to URLs that users name."""

import ipaddress
from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import Field

from worker.config.http_settings import HttpSettings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class WebhookSettings(HttpSettings):
    """The settings of webhooks."""

    webhooks: Annotated[
        bool, Field(description="whether jobs may name a webhook, and workers send what is to be sent")
    ] = True
    webhook_networks: Annotated[
        str,
        Field(
            description="networks that are not public, and to which webhooks may go all the same, as "
            "`10.1.0.0/16, fd00:1::/64`"
        ),
    ] = ""
    webhook_ports: Annotated[
        str,
        Field(
            pattern=r"^ *[0-9]+(-[0-9]+)?( *, *[0-9]+(-[0-9]+)?)* *$",
            description="ports of public addresses to which webhooks may go, as `443, 8443, 9000-9099`; in "
            "`CYCLOPS_WEBHOOK_NETWORKS` they may go to any",
        ),
    ] = "443"
    webhook_ca_file: Annotated[
        Path | None, Field(description="PEM file of further authorities that vouch for the receivers of webhooks")
    ] = None
    webhook_seconds: Annotated[
        float, Field(gt=0, le=60, description="how long one attempt to send a webhook may take, in all")
    ] = 15
    webhook_delays: Annotated[
        str,
        Field(
            pattern=r"^ *[0-9.]+( *, *[0-9.]+)* *$",
            description="seconds between the attempts to send a webhook, a fifth more or less; after the last attempt "
            "it is given up",
        ),
    ] = "5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400"

    @pydantic.field_validator("webhook_networks")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        _networks(text)
        return text

    @pydantic.field_validator("webhook_ports")
    @classmethod
    def _are_ports(cls, text: str) -> str:
        _ports(text)
        return text

    @pydantic.field_validator("webhook_delays")
    @classmethod
    def _are_delays(cls, text: str) -> str:
        _delays(text)
        return text

    @property
    def permitted_networks(self) -> list[Network]:
        """The networks one by one."""
        return _networks(self.webhook_networks)

    @property
    def permitted_ports(self) -> list[range]:
        """The ports in ranges."""
        return _ports(self.webhook_ports)

    @property
    def delays(self) -> list[float]:
        """Seconds after each failed attempt."""
        return _delays(self.webhook_delays)


def _networks(text: str) -> list[Network]:
    return [ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip()]


def _ports(text: str) -> list[range]:
    found = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        ports = range(int(first), int(last or first) + 1)
        if not ports or not 0 < ports[0] <= ports[-1] < 1 << 16:
            raise ValueError(f"{part.strip()} is no port, and no range of ports")
        found.append(ports)
    return found


def _delays(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]
