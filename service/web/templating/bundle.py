"""The scripts and styles of islands, which ``make web`` builds from ``web/``, and the tags that load them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pydantic
from markupsafe import Markup
from pydantic import Field

FOLDER = Path(__file__).parents[1] / "static" / "dist"
_MANIFEST = "manifest.json"
_HREF = "/static/dist/{}"


class _Chunk(pydantic.BaseModel):
    """A file of the bundle, as Vite's manifest describes it; ``imports`` are other chunks, by their keys."""

    file: str
    name: str = ""
    entry: bool = Field(False, alias="isEntry")
    imports: list[str] = []
    css: list[str] = []


@dataclass(frozen=True)
class Bundle:
    """The built islands."""

    chunks: dict[str, _Chunk]

    @staticmethod
    def read(folder: Path = FOLDER) -> "Bundle":
        """Returns the bundle in a folder.

        Raises:
            RuntimeError: it is missing, incomplete, or no bundle; the message says what to do.
        """
        path = folder / _MANIFEST
        try:
            chunks = pydantic.TypeAdapter(dict[str, _Chunk]).validate_python(json.loads(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"the scripts of the pages cannot be read: {error}; `make web` builds them") from error
        files = {name for chunk in chunks.values() for name in (chunk.file, *chunk.css)}
        missing = sorted(name for name in files if not (folder / name).is_file())
        if missing:
            raise RuntimeError(f"scripts of the pages are missing: {', '.join(missing)}; `make web` builds them")
        return Bundle(chunks)

    def island(self, name: str) -> Markup:
        """Returns the tags that load an island: its styles, what its script imports, and its script.

        Raises:
            KeyError: no island has this name.
        """
        found = self._entry(name)
        chunks = list(dict.fromkeys(chunk.file for chunk in self._imported(found)))
        styles = self._styles(found)
        tags = [Markup('<link rel="stylesheet" href="{}">').format(_HREF.format(style)) for style in styles]
        tags += [Markup('<link rel="modulepreload" href="{}">').format(_HREF.format(file)) for file in chunks]
        script = Markup('<script type="module" src="{}"></script>').format(_HREF.format(found.file))
        return Markup("\n").join([*tags, script])

    def styles(self, name: str, folder: Path = FOLDER) -> str:
        """Returns the style sheets of an island as text, for a file that loads nothing.

        Raises:
            KeyError: no island has this name.
        """
        return "\n".join((folder / style).read_text(encoding="utf-8") for style in self._styles(self._entry(name)))

    def _entry(self, name: str) -> _Chunk:
        found = next((chunk for chunk in self.chunks.values() if chunk.entry and chunk.name == name), None)
        if found is None:
            raise KeyError(f"no island is called {name!r}")
        return found

    def _styles(self, entry: _Chunk) -> list[str]:
        return list(dict.fromkeys(style for chunk in (entry, *self._imported(entry)) for style in chunk.css))

    def _imported(self, chunk: _Chunk) -> Iterator[_Chunk]:
        """Yields the chunks that are loaded before this one can run."""
        for key in chunk.imports:
            yield from self._imported(self.chunks[key])
            yield self.chunks[key]
