"""Fixtures of the service's integration tests."""

from collections.abc import Iterator

import pytest

from tests.helpers.idle_service import Quiet, quiet_service


@pytest.fixture(scope="session", autouse=True)
def quiet_services_share_fork_servers(apis_share_fork_servers: None) -> None:
    """Those that run in the test's own process."""


@pytest.fixture(scope="module", params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def quiet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    """An api over a store of each kind, whose jobs no worker takes."""
    with quiet_service(tmp_path_factory.mktemp("quiet"), request.param) as made:
        yield made
