"""Changes of a document: of a resource, which is timed, or of what another program comes of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from accel.accelerator.base import DocumentPart
from accel.accelerator.document import Accelerator
from accel.isa.family.launch_cycles import TimeLaunch


@dataclass(frozen=True)
class Variation:
    """A resource changed.

    Attributes:
        resource: what a program is bound by that gains from it, such as ``the bus``.
        change: what it would have then, such as ``16 bytes a beat``.
        fields: JSON pointer in the document to (before, after); empty where no document says it.
        time: times a launch as :meth:`CycleModel.time` does, with the change. It is given the launches in turn, each
            as it was decoded for the document without the change; several variations may be timed at once.
        eases: categories and causes of a program's account of which it may take something.
    """

    resource: str
    change: str
    fields: Mapping[str, tuple[float | str | None, float | str | None]]
    time: TimeLaunch
    eases: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DocumentChange:
    """A document changed so that another program comes of it.

    Attributes:
        name: what addresses and requests call it: lower case, digits, ``-`` and names of the document.
        resource: what a program is bound by that gains from it, such as ``the size of inp``.
        change: what there would be then, such as ``inp of 64 KiB``.
        make: returns the changed document, unchecked; it raises InvalidAccelerator where there can be none.
    """

    name: str
    resource: str
    change: str
    make: Callable[[], Accelerator]


@runtime_checkable
class NamesChanges(Protocol):
    """What a family may have besides: changes of its own; without it they are those of its memories."""

    def changes(self, accelerator: Accelerator, /) -> Iterable[DocumentChange]:
        """Yields changes that ask for another program, with what must follow each in the document."""


@runtime_checkable
class Derives(Protocol):
    """What a family may have besides: documents that follow from a configuration, a flat or nested set of keys."""

    def configuration(self, accelerator: Accelerator, /) -> DocumentPart:
        """Returns the configuration from which the document follows.

        Raises:
            InvalidAccelerator: it follows from none, or was changed since.
        """

    def derive(self, accelerator: Accelerator, configuration: DocumentPart, /) -> Accelerator:
        """Returns the document of another configuration, unchecked; costs and ports are those of ``accelerator``.

        Raises:
            InvalidAccelerator: no accelerator has this configuration; ``field`` is the key to mend.
        """
