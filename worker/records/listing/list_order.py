"""Order of lists and search in them: sorts, the cursors that continue a sorted list, and the words of a search."""

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Key = int | str | None
# of a cursor as :meth:`Sort.encode` makes it, but for the id, which follows
SORTED_CURSOR = "-?[a-z]{1,20}~(?:[0-9]{1,20}|t[A-Za-z0-9_-]{0,2500})?~"
_ID_DIGITS = 8  # so many of an id's first digits find it; fewer are parts of words


class CursorError(ValueError):
    """A cursor does not continue the list that is asked for."""


class Position(NamedTuple):
    """A place in a sorted list: that of the item with this key and id."""

    key: Key
    id: str


@dataclass(frozen=True)
class Sort(Generic[Item]):
    """A sort of a list by a key of its items. Items without a key come last, those with equal keys by their ids.

    Attributes:
        name: what the sort is called; one that begins with ``-`` is descending.
        key: gives an item's key, a number or a text; None where it has none.
        item_id: gives an item's id.
        numeric: whether keys are numbers.
        ids_descend: whether items with equal keys are in descending order of their ids.
        plain: reads a cursor that is an id, or has one and a key, of a list that had no sorts once; else None.
        plain_cursor: writes such a cursor.
    """

    name: str
    key: Callable[[Item], Key]
    item_id: Callable[[Item], str]
    numeric: bool = False
    ids_descend: bool = True
    plain: Callable[[str], Position] | None = None
    plain_cursor: Callable[[Position], str] = lambda position: position.id

    def position(self, item: Item) -> Position:
        """Returns where the item is."""
        return Position(self.key(item), self.item_id(item))

    def following(self, items: Iterable[Item], after: Position | None) -> list[Item]:
        """Returns the items after a position, sorted; all of them where it is None."""
        placed = [(self.position(item), item) for item in items]
        if after is not None:
            placed = [each for each in placed if self._is_after(each[0], after)]
        placed.sort(key=lambda each: each[0].id, reverse=self.ids_descend)
        keyed = [each for each in placed if each[0].key is not None]
        keyed.sort(key=lambda each: each[0].key, reverse=self.name.startswith("-"))  # type: ignore[arg-type, return-value]
        return [item for _, item in keyed] + [item for position, item in placed if position.key is None]

    def _is_after(self, one: Position, other: Position) -> bool:
        if one.key == other.key:
            return one.id < other.id if self.ids_descend else one.id > other.id
        if one.key is None or other.key is None:
            return one.key is None
        below: bool = one.key < other.key  # type: ignore[operator] # keys of a sort are of one type
        return below == self.name.startswith("-")

    def encode(self, position: Position) -> str:
        """Returns the cursor of the page that begins after the position."""
        if self.plain is not None:
            return self.plain_cursor(position)
        key = "" if position.key is None else str(position.key)
        if isinstance(position.key, str):
            key = "t" + base64.urlsafe_b64encode(position.key.encode()).decode().rstrip("=")
        return f"{self.name}~{key}~{position.id}"

    def decode(self, cursor: str) -> Position:
        """Returns the position after which the page of a cursor begins.

        Raises:
            CursorError: the cursor is of another sort, or of none.
        """
        name, _, rest = cursor.partition("~")
        if (self.plain is None) != bool(rest) or (rest and name != self.name):
            made = f"sort={name}" if rest else "the list's own order"
            raise CursorError(f"the cursor is of a page in {made}, not in sort={self.name}: begin without a cursor")
        if self.plain is not None:
            return self.plain(cursor)
        key, _, item = rest.partition("~")
        try:
            return Position(self._key(key), item)
        except ValueError:
            raise CursorError("the cursor is none that a page has named: begin without a cursor") from None

    def _key(self, text: str) -> Key:
        if not text:
            return None
        if text.startswith("t") == self.numeric:
            raise ValueError(text)
        return int(text) if self.numeric else base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4)).decode()


def search_words(text: str | None) -> tuple[str, ...]:
    """Returns the words of a search, without case, each once; a character that is no space is as good as a letter."""
    return tuple(dict.fromkeys((text or "").casefold().split()))


def has_words(words: Iterable[str], texts: Iterable[str | None], ids: Iterable[str | None] = ()) -> bool:
    """Returns whether each word is a part of one of the texts, or is the beginning of one of the ids.

    Texts are not normalised to one form of Unicode: that takes milliseconds of some, for each of thousands of jobs.
    """
    text = "\n".join(each for each in texts if each).casefold()
    named = [each for each in ids if each]
    return all(
        word in text or (len(word) >= _ID_DIGITS and any(each.startswith(word) for each in named)) for word in words
    )
