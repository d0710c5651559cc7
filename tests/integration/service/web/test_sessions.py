"""Keys in cookies, at every door where they are taken, and share links of pages."""

import contextlib
from collections.abc import Callable, Iterator

import httpx2
import pytest

from tests.helpers.html_pages import read_page
from tests.helpers.idle_service import Quiet, quiet_service
from worker.identity.api_keys import ApiKeys

COOKIE = "cyclops-key"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
OWN = BROWSER | {"Sec-Fetch-Site": "same-origin"}
Visit = Callable[..., httpx2.Client]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("keys"), auth="keys", auth_cache_seconds=0) as running:
        yield running


@pytest.fixture
def visit(quiet: Quiet) -> Iterator[Visit]:
    """Gives a browser, logged in by its cookie if it has a key."""
    with contextlib.ExitStack() as browsers:

        def browser(key: str | None = None, **headers: str) -> httpx2.Client:
            made = httpx2.Client(base_url=quiet.client.base_url, timeout=30, headers=BROWSER | headers)
            if key is not None:
                made.cookies.set(COOKIE, key)
            return browsers.enter_context(made)

        yield browser


@pytest.fixture(scope="module")
def key(quiet: Quiet) -> str:
    return quiet.client.headers["Authorization"].removeprefix("Bearer ")


def test_who_has_no_key_is_led_to_the_log_in_and_back(visit: Visit, key: str) -> None:
    browser = visit()
    asked = browser.get("/jobs?state=failed")
    assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=%2Fjobs%3Fstate%3Dfailed")
    form = browser.get(asked.headers["location"])
    assert form.status_code == 200
    page = read_page(form.text)
    assert page.faults == []
    assert page.fields["key"] == "key"
    assert 'name="next" value="/jobs?state=failed"' in form.text
    answer = browser.post("/login", data={"key": f" {key}\n", "next": "/jobs?state=failed"}, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=failed")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}={key};")
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {"httponly", "samesite=lax", "path=/"}
    assert browser.get("/jobs?state=failed").status_code == 200
    assert browser.get("/v1/jobs").status_code == 200  # what pages load and link to
    left = browser.post("/logout", headers=OWN)
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert COOKIE not in browser.cookies
    assert browser.get("/jobs").status_code == 303


@pytest.mark.parametrize(
    "target", ["//evil.example/", "https://evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_the_log_in_leads_to_no_other_host(visit: Visit, key: str, target: str) -> None:
    browser = visit()
    answer = browser.post("/login", data={"key": key, "next": target}, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "evil" not in browser.get("/login", params={"next": target}).text


def test_behind_tls_the_cookie_is_for_tls_alone(visit: Visit, quiet: Quiet, key: str) -> None:
    host = quiet.client.base_url.netloc.decode()
    answer = visit().post("/login", data={"key": key}, headers=OWN | {"Origin": f"https://{host}"})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("text", ["", "x", "cyclops_" + "a" * 50])
def test_what_is_no_key(visit: Visit, text: str) -> None:
    answer = visit().post("/login", data={"key": text}, headers=OWN)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    page = read_page(answer.text)
    assert page.faults == []
    assert "mistyped" in page.text


def test_a_revoked_key_is_out_and_its_cookie_goes(visit: Visit, quiet: Quiet, is_problem: Callable[..., dict]) -> None:
    keys = ApiKeys(quiet.store)
    made, text = keys.add("goes", "quiet")
    browser = visit(text)
    assert browser.get("/jobs").status_code == 200
    keys.revoke(made.id)
    answer = browser.get("/jobs")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fjobs")
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    again = visit().post("/login", data={"key": text}, headers=OWN)
    assert again.status_code == 401
    assert "revoked" in again.text
    is_problem(visit(text).get("/v1/jobs"), 401, "unauthorized")


FOREIGN = [
    {},
    {"Origin": "null"},
    {"Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-site", "Origin": "OWN"},  # another port of the host may not lie about its site
]


def of_origin(headers: dict[str, str], quiet: Quiet) -> dict[str, str]:
    own = str(quiet.client.base_url).rstrip("/")
    return {name: own if value == "OWN" else value for name, value in headers.items()}


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_cookie_writes_from_our_own_pages_alone(
    visit: Visit, quiet: Quiet, key: str, is_problem: Callable[..., dict], headers: dict[str, str]
) -> None:
    job = quiet.post(quiet.request(seed=7) | {"fresh": True})["id"]
    given = of_origin(headers, quiet)
    browser, programs = visit(key), {"Accept": "application/json"}
    for path in (f"/v1/jobs/{job}/cancel", f"/v1/jobs/{job}/share"):
        is_problem(browser.post(path, headers=given | programs), 403, "cross-origin")
    for path in (f"/jobs/{job}/cancel", f"/jobs/{job}/label", "/logout", "/"):
        refused = browser.post(path, headers=given)
        assert refused.status_code == 403
        assert "from the pages of this service" in refused.text or "a page of" in refused.text
    assert browser.get(f"/v1/jobs/{job}").json()["state"] == "queued"
    is_problem(visit().post("/login", data={"key": key}, headers=given | programs), 403, "cross-origin")
    quiet.client.post(f"/v1/jobs/{job}/cancel")


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "same-origin"}, {"Origin": "OWN"}], ids=str)
def test_and_from_those_it_does(visit: Visit, quiet: Quiet, key: str, headers: dict[str, str]) -> None:
    job = quiet.post(quiet.request(seed=8) | {"fresh": True})["id"]
    given = of_origin(headers, quiet)
    assert visit().post("/login", data={"key": key}, headers=given).status_code == 303
    answer = visit(key).post(f"/jobs/{job}/cancel", headers=given)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
    assert quiet.client.get(f"/v1/jobs/{job}").json()["state"] == "canceled"


def test_a_key_in_a_header_goes_before_a_cookie(visit: Visit, quiet: Quiet, key: str) -> None:
    """A program with a cookie jar is no browser: it sends its key, and no site."""
    job = quiet.post(quiet.request(seed=9) | {"fresh": True})["id"]
    stranger = ApiKeys(quiet.store).add("stranger", "stranger")[1]
    program = visit(key, Authorization=f"Bearer {stranger}")
    assert program.post(f"/v1/jobs/{job}/cancel").status_code == 404
    assert visit(stranger, Authorization=f"Bearer {key}").post(f"/v1/jobs/{job}/cancel").status_code == 200


def test_a_share_link_opens_the_page_and_what_it_links_to(visit: Visit, quiet: Quiet, key: str, tmp_path) -> None:
    job = quiet.post(quiet.request(seed=10) | {"fresh": True})["id"]
    quiet.succeed(job, tmp_path)
    made = visit(key).post(f"/jobs/{job}/share", headers=OWN)
    assert made.status_code == 201
    [address] = [part.split('"')[0] for part in made.text.split('value="') if "share=" in part]
    reader = visit()
    page = read_page(reader.get(address).raise_for_status().text)
    assert page.faults == []
    assert page.posts == set()  # nothing that he could do
    token = address.partition("share=")[2]
    parts = {link for link in page.links if link.startswith(f"/v1/jobs/{job}")}
    assert parts
    for link in parts:
        assert f"share={token}" in link
        assert reader.get(link).status_code == 200, link
    assert reader.get(f"/jobs/{job}").status_code == 303
    assert reader.post(f"/jobs/{job}/delete", params={"share": token}, headers=OWN).status_code == 303
    stranger = visit(ApiKeys(quiet.store).add("other", "other")[1])
    assert stranger.get(f"/jobs/{job}").status_code == 404
    assert f"share={token}" in stranger.get(address).raise_for_status().text
    assert visit(key).post(f"/jobs/{job}/unshare", headers=OWN).status_code == 303
    assert reader.get(address).status_code == 303


def test_what_needs_no_key(visit: Visit) -> None:
    browser = visit()
    assert browser.get("/login").status_code == 200
    for link in read_page(browser.get("/login").text).links:
        if link.startswith("/static/"):
            answer = browser.get(link)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
    assert browser.get("/static/none.css").status_code == 404
    assert browser.get("/nothing").headers["location"] == "/login?next=%2Fnothing"
    assert browser.get("/v1/jobs").headers["content-type"] == "application/problem+json"
    assert browser.get("/jobs", headers={"Accept": "*/*"}).headers["content-type"] == "application/problem+json"
