"""One cluster for the files whose tests leave it running, whatever they did to it meanwhile."""

from collections.abc import Iterator

import pytest

from tests.helpers.cluster import Cluster, running_cluster
from tests.helpers.receiver import Receiver, receiver

STREAMS = 210


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """What webhooks are sent to."""
    with receiver(tmp_path_factory.mktemp("receiver")) as running:
        yield running


def webhook_settings(there: Receiver) -> dict[str, str]:
    return {
        "CYCLOPS_WEBHOOK_NETWORKS": "127.0.0.0/8, ::1/128",
        "CYCLOPS_WEBHOOK_CA_FILE": str(there.authority),
        "CYCLOPS_WEBHOOK_DELAYS": "0.5, 0.5",
        "CYCLOPS_WEBHOOK_SECONDS": "2",
    }


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, there: Receiver) -> Iterator[Cluster]:
    """A file that uses it says ``pytest.mark.xdist_group("cluster")``."""
    settings = webhook_settings(there) | {"CYCLOPS_STREAMS_AT_ONCE": str(STREAMS), "CYCLOPS_WARM_UP": "vta"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), **settings) as cluster:
        yield cluster
