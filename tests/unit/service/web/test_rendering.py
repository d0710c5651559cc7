from datetime import UTC, datetime

import pytest
from jinja2 import UndefinedError
from markupsafe import escape

from service.web.templating import environment as templating
from service.web.templating import static_files
from service.web.templating.rendering import local_path


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 20, "3.0 MiB"), (5 << 40, "5,120.0 GiB")],
)
def test_bytes(number: int, shown: str) -> None:
    assert templating.size(number) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((0, "0 s"), (2.5e-9, "2.50 ns"), (9.9288e-4, "993 µs"), (0.25, "250 ms"), (6.73, "6.73 s")),
        *((3.0, "3.00 s"), (41e-3, "41.0 ms"), (0.9996, "1000 ms")),
        *((61, "1 min 1 s"), (7320, "2 h 2 min")),
        (-0.4, "0 s"),  # begun, by the worker's clock, before it was submitted
    ],
)
def test_times(seconds: float, shown: str) -> None:
    assert templating.duration(seconds) == shown


@pytest.mark.parametrize(("ratio", "shown"), [(200.0, "equal"), (44.16, "44.2 dB"), (-3.0, "-3.0 dB")])
def test_decibels(ratio: float, shown: str) -> None:
    assert templating.decibels(ratio) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0.0 %"),
        (0.0001, "< 0.1 %"),
        (-0.0001, "> -0.1 %"),
        (-0.1, "-10.0 %"),
        (0.12345, "12.3 %"),
        (1.0, "100.0 %"),
    ],
)
def test_shares(share: float, shown: str) -> None:
    assert templating.percent(share).replace("\N{NO-BREAK SPACE}", " ") == shown


@pytest.mark.parametrize(("number", "shown"), [(640, "640"), (12_501_632, "12.5 M"), (4e9, "4 G"), (5e13, "50 T")])
def test_quantities(number: float, shown: str) -> None:
    assert templating.quantity(number) == shown


def test_times_of_the_day_are_for_machines_too() -> None:
    shown = templating.when(datetime(2026, 11, 3, 8, 5, 9, 123, tzinfo=UTC))
    assert shown == '<time datetime="2026-11-03T08:05:09+00:00">3 Nov 2026, 08:05:09 UTC</time>'
    assert escape(shown) == shown


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs?state=failed&model=", "/jobs/a%20b#x"])
def test_paths_of_this_service(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *(None, "", "jobs", "//evil.example", "///evil.example", "https://evil.example", "javascript:alert(1)"),
        *("/\\evil.example", "\\/evil.example", "/\t/evil.example", "/\n/evil.example", "/ x", "/\x00", "/é"),
    ],
)
def test_no_path_leads_to_another_host(path: str | None) -> None:
    assert local_path(path, "/home") == "/home"


def test_templates_escape_and_know_their_names() -> None:
    environment = templating.make_environment()
    for name in ("x.html", "x.svg", "x"):
        made = environment.from_string("{{ text }}")
        made.name = name
        assert made.render(text='<script>"&') == "&lt;script&gt;&#34;&amp;"
    with pytest.raises(UndefinedError):
        environment.from_string("{{ misspelt }}").render()


def test_a_static_file_is_called_by_its_content() -> None:
    files = static_files.static_files()
    assert {"base.css", "icon.svg", "live.js"} <= files.keys()
    for name, file in files.items():
        assert file.content
        if not name.startswith("dist/"):
            stem, digest, suffix = file.path.split(".")
            assert f"{stem}.{suffix}" == name
            assert len(digest) == 12
    assert files["base.css"].media_type == "text/css"
    assert "javascript" in files["live.js"].media_type
    with pytest.raises(KeyError):
        static_files.static_url("none.css")
