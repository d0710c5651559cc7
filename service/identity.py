"""Who asks, as the door found out (``service/door.py``)."""

from dataclasses import dataclass

from worker.identity.share_links import ShareTarget
from worker.records.job_record import LOCAL

NOBODY = ""  # no owner's name: nothing belongs to it


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        owner: whose things it sees; ``NOBODY`` for a request without a key, or one with a link alone.
        shared: what it may read besides.
        counted_as: under which name its requests are counted.
    """

    owner: str
    shared: ShareTarget | None = None
    counted_as: str = ""

    def following(self, owner: str) -> str:
        """Under which name it is counted who follows a job of this owner: all by links to an owner's jobs are one."""
        return self.owner or f"link:{owner}"


ANONYMOUS = Caller(NOBODY)
EVERYBODY = Caller(LOCAL)  # where no keys are needed
