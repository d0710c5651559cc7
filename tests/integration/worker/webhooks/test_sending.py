"""Attempts to send, at a real server over TLS."""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.receiver import Receiver, receiver, status
from worker.webhooks.delivery_attempt import AttemptOutcome, send_webhook, trusted_certificates
from worker.webhooks.targets import Address, Destinations, parse_url

PUBLIC = Destinations([], [range(443, 444)])
LOOPBACK = Destinations([ipaddress.ip_network("127.0.0.0/8")], PUBLIC.ports)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiver(tmp_path_factory.mktemp("receiver"), "localhost", "hooks.example", "127.0.0.1") as running:
        yield running


def sent(
    there: Receiver, url: str, answers: Sequence[Sequence[str]] = (("127.0.0.1",),), **options: Any
) -> AttemptOutcome:
    """What came of sending; ``answers``: what a resolver says each time it is asked."""
    asked: list[str] = []

    async def resolve(host: str, _port: int) -> list[Address]:
        asked.append(host)
        return [ipaddress.ip_address(text) for text in answers[len(asked) - 1]]

    given = {
        "seconds": 5.0,
        "destinations": LOOPBACK,
        "trusted": trusted_certificates(there.authority),
        "resolve": resolve,
    } | options
    outcome = asyncio.run(send_webhook(parse_url(url), {"webhook-id": "1"}, b"{}", **given))
    assert len(asked) <= 1, "a name is resolved once"
    return outcome


def test_it_arrives_as_it_was_sent(there: Receiver) -> None:
    assert sent(there, there.url("/a?b=c", "hooks.example")) == AttemptOutcome(204)
    (request,) = there.at("/a?b=c")
    assert request.body == b"{}"
    assert request.headers["host"] == f"hooks.example:{there.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "1"
    assert "accept-encoding" not in request.headers


def test_an_address_in_place_of_a_name(there: Receiver) -> None:
    assert sent(there, there.url("/address", "127.0.0.1")) == AttemptOutcome(204)


def test_statuses_are_told_and_redirects_not_followed(there: Receiver) -> None:
    for code in (200, 201, 301, 302, 303, 307, 308, 400, 410, 500):
        there.answers["/coded"] = status(code, Location=there.url("/elsewhere"))
        outcome = sent(there, there.url("/coded"))
        assert outcome == AttemptOutcome(code)
        assert outcome.delivered == (code < 300)
    assert not there.at("/elsewhere")


def test_addresses_that_are_not_public_are_not_connected_to(there: Receiver) -> None:
    before = there.connections
    for text in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "64:ff9b::7f00:1", "0.0.0.0"):
        assert sent(there, there.url("/private"), [[text]], destinations=PUBLIC) == AttemptOutcome(
            None, "address-refused"
        )
    assert sent(there, there.url("/private", "127.0.0.1"), destinations=PUBLIC) == AttemptOutcome(
        None, "address-refused"
    )
    assert there.connections == before


def test_ports_of_public_addresses_and_those_of_permitted_networks(there: Receiver) -> None:
    refused = AttemptOutcome(None, "port-refused")
    for answers in (["1.1.1.1"], ["10.0.0.1", "2606:4700::1111"]):
        assert sent(there, "https://hooks.example:8443/", [answers], destinations=PUBLIC) == refused
    assert refused.final
    assert AttemptOutcome(None, "address-refused").final
    assert not AttemptOutcome(None, "name-not-resolved").final
    assert sent(there, there.url("/ported"), [["1.1.1.1", "127.0.0.1"]]) == AttemptOutcome(204)


def test_a_name_server_that_answers_otherwise_the_second_time(there: Receiver) -> None:
    """What was looked at is what is connected to: the second answer is not asked for."""
    before = there.connections
    rebinding = [["192.0.2.1"], ["127.0.0.1"]]
    there_too = Destinations([ipaddress.ip_network("192.0.2.0/24")], [])  # it passes for public here, and leads nowhere
    outcome = sent(there, there.url("/rebound"), rebinding, destinations=there_too, seconds=1.0)
    assert outcome.error in {"timed-out", "connection-failed"}
    assert there.connections == before


def test_of_several_addresses_those_that_are_permitted(there: Receiver) -> None:
    assert sent(there, there.url("/several"), [["::1", "10.0.0.1", "127.0.0.1"]]) == AttemptOutcome(204)


def test_the_next_address_where_one_does_not_answer(there: Receiver) -> None:
    # nobody listens at 127.0.0.2
    assert sent(there, there.url("/next"), [["127.0.0.2", "127.0.0.1"]]) == AttemptOutcome(204)


def test_a_certificate_of_another_name_or_of_nobody_known(there: Receiver) -> None:
    assert sent(there, there.url("/wrong", "other.example")) == AttemptOutcome(None, "tls-failed")
    assert sent(there, there.url("/wrong"), trusted=trusted_certificates(None)) == AttemptOutcome(None, "tls-failed")
    assert not there.at("/wrong")


def test_proxies_of_the_environment_are_not_asked(there: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert sent(there, there.url("/direct")) == AttemptOutcome(204)


def test_names_that_are_none(there: Receiver) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    from worker.webhooks.delivery_attempt import system_resolver  # noqa: PLC0415

    with ThreadPoolExecutor(1) as threads:
        outcome = sent(there, "https://nobody.invalid/", resolve=system_resolver(threads))
        assert outcome == AttemptOutcome(None, "name-not-resolved")
        assert sent(there, there.url("/system"), resolve=system_resolver(threads)) == AttemptOutcome(204)
        refused = sent(there, there.url("/system"), resolve=system_resolver(threads), destinations=PUBLIC)
        assert refused == AttemptOutcome(None, "address-refused")


@pytest.mark.slow
def test_nothing_takes_longer_than_it_may(there: Receiver) -> None:
    given_up = threading.Event()

    def silent(_handler: Any, _number: int) -> None:
        given_up.wait(60)

    def dripping(handler: Any, _number: int) -> None:
        while not given_up.wait(0.1):
            handler.wfile.write(b"H")
            handler.wfile.flush()

    for path, answer in (("/silent", silent), ("/dripping", dripping)):
        there.answers[path] = answer
        assert sent(there, there.url(path), seconds=0.5).error == "timed-out"
    given_up.set()


def test_an_answer_without_end_is_not_listened_to(there: Receiver) -> None:
    written = []

    def endless(handler: Any, _number: int) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(bytes(1 << 16))
                written.append(1 << 16)
        finally:
            handler.close_connection = True

    there.answers["/endless"] = endless
    assert sent(there, there.url("/endless"), seconds=60) == AttemptOutcome(200)
    assert sum(written) < 16 << 20


def test_heads_without_end_and_what_is_no_http() -> None:
    """A server without TLS, and one that says nothing that can be understood."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=serve)
        thread.start()

        async def resolve(_host: str, _port: int) -> list[Address]:
            return [ipaddress.ip_address("127.0.0.1")]

        outcome = asyncio.run(
            send_webhook(
                parse_url(f"https://localhost:{port}/"),
                {},
                b"{}",
                seconds=3,
                trusted=trusted_certificates(None),
                resolve=resolve,
                destinations=LOOPBACK,
            )
        )
        thread.join()
    assert outcome == AttemptOutcome(None, "tls-failed")


def test_heads_without_end(there: Receiver) -> None:
    def endless(handler: Any, _number: int) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(200_000):
            handler.wfile.write(b"X-%d: %s\r\n" % (number, b"a" * 100))

    there.answers["/heads"] = endless
    assert sent(there, there.url("/heads")) == AttemptOutcome(None, "no-answer")


def test_the_file_of_authorities(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        trusted_certificates(tmp_path / "none.pem")
