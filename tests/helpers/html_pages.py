"""Pages read as a browser reads them: their structure, what they link to, and what must not be in them."""

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

VOID = {"meta", "link", "input", "img", "br", "col", "hr"}
_ADDRESSES = {"href", "src", "action"}
_REFERENCES = {"for", "aria-labelledby", "aria-describedby"}
HERE = "http://here"


@dataclass
class Page:
    """What a page holds; ``links`` are addresses that a browser asks for, ``posts`` those that forms send to."""

    text: str = ""
    ids: Counter[str] = field(default_factory=Counter)
    links: set[str] = field(default_factory=set)
    posts: set[str] = field(default_factory=set)
    headings: list[int] = field(default_factory=list)
    tags: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)


class _Reader(HTMLParser):
    def __init__(self, *, alone: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._alone = alone
        self._open: list[str] = []
        self._references: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._take(tag, attributes)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID and "svg" not in self._open:
            self.page.faults.append(f"<{tag}/> is no element of HTML that ends itself")
        self._take(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.page.faults.append(f"</{tag}> ends nothing that is open, at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        own = self._alone and self._open[-2:] == ["head", "style"]
        if self._open and self._open[-1] in {"script", "style"} and data.strip() and not own:
            self.page.faults.append(f"inline {self._open[-1]}: {data[:40]}")
        self.page.text += data

    def _take(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        page, given = self.page, dict(attributes)
        page.tags[tag] += 1
        if len(given) < len(attributes):
            page.faults.append(f"<{tag}> has an attribute twice")
        own = self._alone and tag == "style" and self._open[-1:] == ["head"] and page.tags[tag] == 1
        if (tag == "style" and not own) or "style" in given or any(name.startswith("on") for name in given):
            page.faults.append(f"inline style or script: <{tag} {given}>")
        if tag in {"h1", "h2", "h3", "h4"}:
            page.headings.append(int(tag[1]))
        if given.get("id") is not None:
            page.ids[given["id"]] += 1
        for name in _REFERENCES & given.keys():
            self._references += (given[name] or "").split()
        leaves = tag == "a" and "noreferrer" in (given.get("rel") or "").split()
        for name in _ADDRESSES & given.keys():
            if leaves and not is_here(given[name] or ""):
                continue  # nothing is asked there until somebody goes, and nothing is told
            posts = tag == "form" and given.get("method") == "post"
            (page.posts if posts else page.links).add(given[name] or "")
        if tag == "img" and "alt" not in given:
            page.faults.append("a picture says nothing")
        if tag in {"input", "select", "textarea"} and given.get("type") not in {"hidden", "radio", "checkbox"}:
            page.fields[given.get("id") or ""] = given.get("name") or ""

    def finish(self) -> Page:
        self.close()
        page = self.page
        page.text = page.text.replace("\N{NO-BREAK SPACE}", " ")
        page.faults += [f"<{tag}> is not ended" for tag in self._open]
        page.faults += [f"the id {name!r} is there {times} times" for name, times in page.ids.items() if times > 1]
        page.faults += [f"nothing has the id {name!r}" for name in self._references if name not in page.ids]
        if page.headings[:1] != [1] or page.headings.count(1) != 1:
            page.faults.append(f"the headings do not begin with one h1: {page.headings}")
        steps = zip(page.headings, page.headings[1:], strict=False)
        page.faults += [f"a heading skips a level: {page.headings}" for before, after in steps if after > before + 1]
        labelled = set(self._references)
        page.faults += [f"the field {name!r} has no label" for name in page.fields if name not in labelled]
        # a file alone has its tables within
        asked = {link for link in page.links if not (self._alone and link.startswith("data:text/csv"))} | page.posts
        page.faults += [f"another host: {link}" for link in asked if not is_here(link)]
        return page


def read_page(html: str, *, alone: bool = False) -> Page:
    """Returns what the page holds; ``faults`` is empty where it is as it should be.

    One that is ``alone`` has its style inside, and needs no header.
    """
    assert html.startswith("<!doctype html>")
    reader = _Reader(alone=alone)
    reader.feed(html.removeprefix("<!doctype html>"))
    page = reader.finish()
    for tag in ("main", "title", "footer") if alone else ("main", "title", "header", "footer"):
        assert page.tags[tag] == 1 + (tag == "title") * (page.tags["title"] - 1), tag
    return page


def is_here(link: str) -> bool:
    """Whether an address is of the page's own host, and asks for it over HTTP."""
    found = urlsplit(urljoin(HERE, link))
    return f"{found.scheme}://{found.netloc}" == HERE
