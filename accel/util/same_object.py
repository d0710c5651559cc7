"""Objects as keys of caches."""

from typing import Generic, TypeVar

_T = TypeVar("_T")


class SameObject(Generic[_T]):
    """An object as the key of a cache: the same object is the same key, and nothing changes it."""

    def __init__(self, value: _T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObject) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
