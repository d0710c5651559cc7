"""URLs and secrets of webhooks."""

import base64
import json

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.webhooks.targets import Webhook, parse_url

SECRET = "whsec_" + base64.b64encode(bytes(range(24))).decode()


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("https://example.com", "example.com", 443, "/", "example.com"),
        ("HTTPS://Example.COM:8443/a/b?c=d@e", "example.com", 8443, "/a/b?c=d@e", "example.com:8443"),
        ("https://xn--bcher-kva.example?x", "xn--bcher-kva.example", 443, "/?x", "xn--bcher-kva.example"),
        ("https://1.2.3.4/x%20y", "1.2.3.4", 443, "/x%20y", "1.2.3.4"),
        ("https://[2606:4700:0::1111]:444/", "2606:4700::1111", 444, "/", "[2606:4700::1111]:444"),
    ],
)
def test_a_url_in_its_parts(url: str, host: str, port: int, path: str, authority: str) -> None:
    target = parse_url(url)
    assert (target.host, target.port, target.path, target.authority) == (host, port, path, authority)


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com/", "ftp://example.com/", "//example.com", "example.com", "", "https://", "https:///x"),
        *("https://user@example.com/", "https://user:word@example.com/", "https://example.com@127.0.0.1/"),
        *("https://example.com#x", "https://example.com/#@other.example", "https://example.com\\@other.example/"),
        *("https://example.com:0/", "https://example.com:65536/", "https://example.com:/", "https://example.com:443a/"),
        *("https://example.com:-1/", "https://exa mple.com/", "https://example.com/a b", "https://example.com/\n"),
        *("https://example.com\t.other/", "https://\u0435xample.com/", "https://example.com/\u00e4", "https://.com/"),
        *("https://a..b/", "https://example.com./", "https://-a.com/", f"https://{'a' * 64}.com/"),
        *(f"https://{'a.' * 130}com/", f"https://example.com/{'a' * 2000}"),
        *("https://127.1/", "https://2130706433/", "https://0x7f.0.0.1/", "https://0177.0.0.1/", "https://1.2.3/"),
        *("https://1.2.3.256/", "https://a.0x7f/", "https://01.2.3.4/", "https://[1.2.3.4]/", "https://[::1/"),
        *("https://[fe80::1%25eth0]/", "https://[::1]x/", "https://[v1.x]/", "https://example.com%2f@x/"),
        *("https:/example.com/", "https:example.com", " https://example.com", "https://example.com "),
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|must)"):
        parse_url(url)


@given(st.text() | st.from_regex(r"https://[^/]{0,20}(/.*)?", fullmatch=True))
def test_any_text_has_parts_or_is_refused(text: str) -> None:
    try:
        target = parse_url(text)
    except ValueError:
        return
    assert text[:8].lower() == "https://"
    assert text.isascii()
    assert not set(text) & set("#\\ \r\n\t")
    assert 0 < target.port < 65536
    assert target.path.startswith("/")
    assert target.host.strip(".")


@pytest.mark.parametrize(
    "secret",
    [
        *("", "whsec_", "secret", "whsec_" + base64.b64encode(bytes(23)).decode(), SECRET.removeprefix("whsec_")),
        *("whsec_" + base64.b64encode(bytes(65)).decode(), SECRET[:-1] + "*", SECRET + "\n", "whsec_\u00e4" + "A" * 40),
    ],
)
def test_secrets_that_are_refused_are_not_shown(secret: str) -> None:
    with pytest.raises(pydantic.ValidationError) as error:
        Webhook(url="https://example.com", secret=secret)
    assert not secret[6:] or secret[6:] not in str(error.value)


def test_a_secret_is_shown_by_no_text_of_it() -> None:
    webhook = Webhook(url="https://example.com", secret=SECRET)
    assert webhook.secret.get_secret_value() == SECRET
    for text in (repr(webhook), str(webhook), webhook.model_dump_json(), json.dumps(webhook.model_dump(mode="json"))):
        assert SECRET not in text
