"""Fixtures of the service's end-to-end tests."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def quiet_services_share_fork_servers(apis_share_fork_servers: None) -> None:
    """Those that run in the test's own process."""
