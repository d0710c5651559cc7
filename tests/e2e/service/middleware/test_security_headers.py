import base64
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import httpx2
import pytest

from service.web.templating import static_files
from tests.helpers.idle_service import quiet_service
from worker.config.settings import Settings


def test_every_answer_says_how_it_may_be_used(client: httpx2.Client) -> None:
    for path, status in (("/v1/jobs", 200), ("/v1/jobs/none", 404), ("/openapi.json", 200), ("/nothing", 404)):
        answer = client.get(path)
        assert answer.status_code == status
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert policy.endswith("frame-ancestors 'none'")
        assert "Strict-Transport-Security" not in answer.headers
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_worker_may_ask_this_host_alone(client: httpx2.Client) -> None:
    """Catches a script's policy under which a worker, which obeys it and not the page's, cannot ask for a window."""
    bundle = Path(static_files.__file__).parents[1] / "static" / "dist"
    [worker] = bundle.glob("worker-*.js")
    policy = client.get(f"/static/dist/{worker.name}").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; connect-src 'self'; frame-ancestors ")
    style = client.get(static_files.static_url("base.css")).headers["content-security-policy"]
    assert "'self'" not in style.partition("frame-ancestors")[0]


@pytest.mark.parametrize("path", ["/docs", "/docs/oauth2-redirect"])
def test_the_documentation_runs_its_own_scripts_only(client: httpx2.Client, path: str) -> None:
    page = client.get(path)
    (allowed,) = re.findall(r"script-src ([^;]*)", page.headers["Content-Security-Policy"])
    scripts = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    assert scripts
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert allowed.split() == ["'self'", *(f"'sha256-{digest}'" for digest in digests)]
    assert client.head(path).headers["Content-Security-Policy"] == page.headers["Content-Security-Policy"]


@pytest.mark.slow
def test_the_documentation_works_in_a_browser(client: httpx2.Client) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    page = subprocess.run(
        [*command, "--virtual-time-budget=8000", "--dump-dom", str(client.base_url).rstrip("/") + "/docs"],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert "Content Security Policy" not in page.stderr
    assert page.stdout.count('class="opblock ') > 20
    assert "Authorize" in page.stdout


def test_no_other_site_may_ask(client: httpx2.Client) -> None:
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert "Access-Control-Allow-Origin" not in client.options("/v1/jobs", headers=asked).headers


@pytest.mark.slow
def test_what_the_settings_say(tmp_path: Path) -> None:
    settings = {
        "auth": "keys",
        "cors_origins": "https://a.example, https://b.example",
        "hsts_seconds": 3600,
        "frame_ancestors": "https://a.example",
        "referrer_policy": "",
    }
    with quiet_service(tmp_path, **settings) as running:
        del running.client.headers["Authorization"]
        refused = running.client.get("/v1/jobs", headers={"Origin": "https://b.example"})
        assert refused.status_code == 401
        assert refused.headers["Access-Control-Allow-Origin"] == "https://b.example"
        assert "Retry-After" in refused.headers["Access-Control-Expose-Headers"]
        assert refused.headers["Strict-Transport-Security"] == "max-age=3600"
        assert refused.headers["Content-Security-Policy"].endswith("frame-ancestors https://a.example")
        assert "Referrer-Policy" not in refused.headers
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type",
        }
        allowed = running.client.options("/v1/jobs", headers=asked | {"Origin": "https://a.example"})
        assert allowed.status_code == 200
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://a.example"
        assert "Access-Control-Allow-Credentials" not in allowed.headers
        other = running.client.options("/v1/jobs", headers=asked | {"Origin": "https://c.example"})
        assert "Access-Control-Allow-Origin" not in other.headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cors_origins", "a.example"),
        ("cors_origins", "https://a.example/path"),
        ("cors_origins", "https://a.example,"),
        ("frame_ancestors", "'none'; script-src *"),
        ("content_security_policy", "default-src *\r\nX: y"),
        ("referrer_policy", "no referrer"),
        ("hsts_seconds", "-1"),
        ("auth", "on"),
    ],
)
def test_settings_that_cannot_be(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        Settings(**{name: value})
