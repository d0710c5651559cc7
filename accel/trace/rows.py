"""A run of a trace's rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accel.trace.names import Names

Column = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Rows:
    """Instructions: their places in the trace, and a column for each of ``names.columns``, all (n,)."""

    names: Names
    index: Column
    columns: Mapping[str, Column]

    @staticmethod
    def run(names: Names, begin: int, columns: Mapping[str, Column]) -> "Rows":
        """Rows that follow each other from ``begin`` on."""
        return Rows(names, np.arange(begin, begin + len(columns["kind"])), columns)

    @staticmethod
    def joined(names: Names, parts: Sequence["Rows"]) -> "Rows":
        """The rows of all parts, in their order."""
        empty = np.zeros(0, np.int8)
        columns = {name: np.concatenate([empty, *(part[name] for part in parts)]) for name in names.columns}
        return Rows(names, np.concatenate([np.zeros(0, np.int64), *(part.index for part in parts)]), columns)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, column: str) -> Column:
        return self.columns[column]

    def take(self, which: Column | slice) -> "Rows":
        """Some of them; views where ``which`` is a slice."""
        return Rows(self.names, self.index[which], {name: column[which] for name, column in self.columns.items()})

    def records(self, does: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Each row as the service's JSON has it; ``does`` (n,) are the expressions."""
        listed = [self.index.tolist(), *(column.tolist() for column in self.columns.values())]
        for text, *values in zip(does, *listed, strict=True):
            yield self._record(dict(zip(("index", *self.columns), values, strict=True)), text)

    def _record(self, row: dict[str, int], does: str) -> dict[str, Any]:
        names = self.names
        operation = names.operations[row["kind"]]
        origin = names.origins[row["origin"]] if row["origin"] >= 0 else None
        waits = {cause: row[f"wait/{cause}"] for cause in names.causes}
        queues = {queue.name for queue in names.queues}
        return {
            "index": row["index"],
            "launch": names.launches[row["launch"]].name,
            "unit": operation.unit,
            "op": operation.name,
            "does": does,
            "fields": {name: row[f"field/{name}"] for name in operation.fields},
            "start": row["start"],
            "end": row["end"],
            "waited_for": [
                {"cause": "token" if cause in queues else cause, "cycles": cycles, "on": cause}
                for cause, cycles in waits.items()
                if cycles > 0
            ],
            "origin": origin and vars(origin) | {"nodes": list(origin.nodes)},
        }
