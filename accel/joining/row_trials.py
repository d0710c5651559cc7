"""Trials of what stays on the chip in a row of launches, whatever the order of its instructions."""

from collections.abc import Sequence

from accel.accelerator.document import Accelerator
from accel.isa.decode import decode
from accel.isa.family import DramTensor, Family, KeepsResults, ResidentRow, dram_traffic
from accel.util.arrays import Words

_WORK = 1 << 22  # instructions of all trials of a row


class RowTrials:
    """Trials of what stays of the tensors of a row, whatever the order of its instructions."""

    def __init__(self, accelerator: Accelerator, family: Family, tensors: Sequence[DramTensor]) -> None:
        assert isinstance(family, KeepsResults)
        self._accelerator, self._family, self._keeps, self._tensors = accelerator, family, family, tensors

    def chosen(self, words: Words) -> ResidentRow | None:
        """Returns the row in which those stay that make it better; None where none does.

        All are tried together first, then halves of what did not make it better.
        """
        residency = self._keeps.residency(decode(self._accelerator, words), self._tensors)
        if not residency.candidates:
            return None
        best, value = None, self.value(words)
        stay: tuple[int, ...] = ()
        left, work = [tuple(residency.candidates)], _WORK
        while left and work > 0:
            part = left.pop()
            tried = residency.rewritten((*stay, *part))
            work -= len(tried.words)
            worth = self.value(tried.words)
            if tried.residents and worth < value:
                best, value, stay = tried, worth, tuple(each.number for each in tried.residents)
            elif len(part) > 1:
                left += [part[len(part) // 2 :], part[: len(part) // 2]]
        return best

    def of(self, numbers: Sequence[int]) -> "RowTrials":
        """Returns trials of some of the tensors."""
        return RowTrials(self._accelerator, self._family, [self._tensors[number] for number in numbers])

    def value(self, words: Words) -> tuple[int, int]:
        """Returns the cycles that a row takes, and the bytes of DRAM that it moves."""
        decoded = decode(self._accelerator, words)
        return self._family.time(decoded, {}).cycles, sum(dram_traffic(self._family.boxes(decoded)))
