"""Fixtures of the service's integration tests."""

from collections.abc import Callable, Iterator

import pytest

from tests.helpers.idle_service import Quiet, quiet_service
from worker.sandbox.fork_client import ForkClient


@pytest.fixture(scope="session", autouse=True)
def apis_share_fork_servers(fork_server: Callable[..., ForkClient]) -> Iterator[None]:
    """Apis in the test's own process; loading the compiler takes longer than most of what they are asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.app.ForkClient", fork_server)
        yield


@pytest.fixture(scope="module", params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def quiet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    """An api over a store of each kind, whose jobs no worker takes."""
    with quiet_service(tmp_path_factory.mktemp("quiet"), request.param) as made:
        yield made
