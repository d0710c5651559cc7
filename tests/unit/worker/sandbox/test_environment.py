import pytest

from worker.sandbox.environment import harmless_variables


@pytest.mark.parametrize(
    "name",
    [
        "CYCLOPS_REDIS_PASSWORD",
        "CYCLOPS_REDIS_URL",
        "CYCLOPS_STORE_SECRET_ACCESS_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "DATABASE_URL",
        "SSH_AUTH_SOCK",
        "path",
    ],
)
def test_what_is_not_known_to_be_harmless_is_left_out(name: str) -> None:
    assert harmless_variables({name: "secret"}) == {}


def test_what_a_process_needs_is_kept() -> None:
    needed = {"PATH": "/bin", "PYTHONPATH": "/src", "XDG_CACHE_HOME": "/cache", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
    needed["ORT_DISABLE_TELEMETRY"] = "1"
    assert harmless_variables({**needed, "AWS_PROFILE": "p"}) == needed
