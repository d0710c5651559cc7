"""The tokens of a queue as edges from the instruction that sends one to the one that takes it."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

Rank = int
"""An instruction's place in the order of the program, among those of all units."""


@dataclass
class TokenEdges:
    """Edges (``sent[i]``, ``taken[i]``), both in strict order: the n-th token taken is the n-th one sent.

    Edges that others imply are left out, so that there can be an edge between any two instructions: of two of which one
    is sent no earlier and taken no later, it is the only one.
    """

    sent: list[Rank] = field(default_factory=list)
    taken: list[Rank] = field(default_factory=list)
    checked: int = 0

    def add(self, sent: Rank, taken: Rank) -> None:
        """Let the instruction ``taken`` begin after ``sent`` has ended."""
        before = bisect_right(self.taken, taken)
        if before and self.sent[before - 1] >= sent:
            return
        begin, end = bisect_left(self.taken, taken), bisect_right(self.sent, sent)
        self.sent[begin:end], self.taken[begin:end] = [sent], [taken]
        self.checked = min(self.checked, begin)

    def before(self, taken: Rank) -> Rank:
        """Returns the last one whose end an instruction waits for, or its unit has waited for; -1: none."""
        at = bisect_right(self.taken, taken)
        return self.sent[at - 1] if at else -1

    def sender(self, taken: Rank) -> Rank | None:
        """Returns who sends the token that an instruction takes; None: it takes none."""
        at = bisect_left(self.taken, taken)
        return self.sent[at] if at < len(self.taken) and self.taken[at] == taken else None
