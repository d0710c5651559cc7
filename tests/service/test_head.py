import httpx2


def test_head_is_get_without_its_body(client: httpx2.Client) -> None:
    for path in ("/healthz", "/v1/jobs", "/v1/accelerators/vta", "/openapi.json", "/v1/models/nothing"):
        got, head = client.get(path), client.head(path)
        assert head.status_code == got.status_code
        assert head.content == b""
        for name in ("content-type", "content-length"):
            assert head.headers[name] == got.headers[name]


def test_head_of_what_is_only_posted(client: httpx2.Client) -> None:
    assert client.head(f"/v1/jobs/{'0' * 32}/cancel").status_code == 405
