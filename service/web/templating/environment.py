"""The templates' environment, and their filters for numbers and units; it knows nothing of requests."""

import json
import math
from datetime import datetime
from importlib.metadata import version
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from accel.report.documents.verdicts import EQUAL_DB

_KIBI = 1024
_SECONDS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (1e-6, "µs", 1e6), (0.0, "ns", 1e9))
_MINUTE, _HOUR = 60, 3600
_FACTOR = 9  # so many times more are told as a factor
_SHORT = 12  # digits that tell uploads and jobs apart


def count(number: float) -> str:
    """Returns an integer with its thousands set apart: ``1,234,567``."""
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Returns bytes with a binary unit: ``12.5 KiB``."""
    for unit in ("B", "KiB", "MiB"):
        if number < _KIBI:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= _KIBI
    return f"{number:,.1f} GiB"


def quantity(number: float) -> str:
    """Returns a large number in three digits with its prefix: ``12.5 M``."""
    for prefix in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {prefix}".rstrip()
        number /= 1000
    return f"{number:,.3g} T"


def duration(seconds: float) -> str:
    """Returns a time in a unit of its size: ``1.25 ms``, ``12 min 5 s``; ``0 s`` if two clocks make it negative."""
    if seconds >= _HOUR:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    if seconds >= _MINUTE:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    if seconds <= 0:
        return "0 s"
    _, unit, factor = next(entry for entry in _SECONDS if seconds >= entry[0])
    return f"{_digits(seconds * factor)} {unit}"


def _digits(number: float) -> str:
    """Returns a number that is not negative in three digits, of which none is left out: ``3.00``, ``41.0``, ``250``."""
    return f"{number:.{2 - min(max(math.floor(math.log10(number)), 0), 2)}f}" if number else "0"


def energy(picojoules: float) -> str:
    """Returns an energy in a unit of its size: ``2.70 mJ``."""
    for unit in ("pJ", "nJ", "µJ", "mJ"):
        if picojoules < 1000:
            return f"{_digits(picojoules)} {unit}"
        picojoules /= 1000
    return f"{_digits(picojoules)} J"


def decibels(ratio: float) -> str:
    """Returns a ratio in decibels: ``44.2 dB``; ``equal`` where a report says that nothing differs."""
    return "equal" if ratio >= EQUAL_DB else f"{ratio:.1f} dB"


def percent(share: float) -> str:
    """Returns a share as a percentage: ``12.5 %``; one that rounds to nothing and is something as ``< 0.1 %``."""
    if 0 < abs(share) < 0.0005:
        return "< 0.1 %" if share > 0 else "> -0.1 %"
    return f"{share:.1%}".replace("%", "\N{NO-BREAK SPACE}%")


def change(share: float) -> str:
    """Returns a change as a percentage with its sign, ``+12.5 %``; one of ten times and more as a factor, ``x 18``."""
    if share >= _FACTOR:
        return f"\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}{share + 1:,.0f}"
    text = percent(share)
    return text if share <= 0 or text.startswith("<") else f"+{text}"


def when(time: datetime) -> Markup:
    """Returns a time of the day in UTC, as a ``<time>`` that machines read too."""
    return Markup('<time datetime="{}">{}</time>').format(
        time.isoformat(timespec="seconds"), f"{time:%d %b %Y, %H:%M:%S} UTC".lstrip("0")
    )


def json_text(value: object) -> str:
    """Returns a value as JSON has it, and a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def short(digest: str) -> str:
    """Returns the first digits of an id, which tell it from others at a glance."""
    return digest[:_SHORT]


def make_environment() -> Environment:
    """Returns the environment of all templates: text is escaped, and a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters = (count, size, quantity, duration, energy, decibels, percent, change, when, short)
    environment.filters.update({each.__name__: each for each in filters})
    environment.filters["path"] = quote
    environment.filters["json"] = json_text
    environment.globals["version"] = version("cyclops")
    return environment
