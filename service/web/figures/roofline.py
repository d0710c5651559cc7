"""The roofline of a program as the geometry of a picture: axes, roof, and a point for each layer."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

WIDTH, HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 24, 48
_NAME = 24  # characters of a name in the picture
_LETTER = 7  # pixels that a letter is wide, and half a line high
_Box = tuple[float, float, float, float]  # left, right, top, bottom


@dataclass(frozen=True)
class Tick:
    """A line of the grid: ``at`` is a coordinate in pixels."""

    at: float
    text: str


@dataclass(frozen=True)
class Point:
    """A layer: ``x`` and ``y`` are its place in pixels, ``intensity`` and ``rate`` in units of the axes."""

    number: int
    name: str
    cycles: int
    intensity: float
    rate: float
    x: float
    y: float
    radius: float
    label: str
    before: bool  # whether the label stands before the point, as there is no room behind it


@dataclass(frozen=True)
class Roofline:
    """The picture. ``roof`` are the points of a polyline; ``ridge`` is the intensity from which the peak can be met."""

    xs: list[Tick]
    ys: list[Tick]
    roof: str
    points: list[Point]
    ridge: float
    peak: float
    bus_bytes: float

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM


class _Axis:
    """A logarithmic axis from ``low`` at pixel ``begin`` to ``high`` at ``end``."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self._low, self._high = math.log10(low), math.log10(high)
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return round(self._begin + share * (self._end - self._begin), 1)

    def ticks(self) -> Iterator[Tick]:
        steps = (1, 2, 5) if self._high - self._low < 2.5 else (1,)
        for decade in range(math.floor(self._low), math.ceil(self._high) + 1):
            for step in steps:
                value = step * 10.0**decade
                if self._low - 1e-9 <= math.log10(value) <= self._high + 1e-9:
                    yield Tick(self.at(value), f"{value:,.10g}")


def roofline(layers: Sequence[Mapping[str, Any]], peak: float | None, bus_bytes: float) -> Roofline | None:
    """Returns the roofline of a program's launches; None where none of them multiplies.

    Args:
        layers: the launches of the report, in their order.
        peak: multiply-accumulates a cycle at best; None where nothing multiplies.
        bus_bytes: bytes a cycle over the bus at best, of reads and as many of writes; so the busier of them counts.
    """
    rated = [
        (
            number,
            layer,
            layer["macs"] / max(layer["bytes_read"], layer["bytes_written"]),
            layer["macs"] / layer["cycles"],
        )
        for number, layer in enumerate(layers, 1)
        if layer["macs"] and layer["cycles"] and max(layer["bytes_read"], layer["bytes_written"])
    ]
    if not rated or peak is None:
        return None
    ridge = peak / bus_bytes
    intensities, rates = [each[2] for each in rated], [each[3] for each in rated]
    x = _Axis(min(*intensities, ridge) / 2, max(*intensities, ridge) * 2, _LEFT, WIDTH - _RIGHT)
    y = _Axis(min(*rates, peak) / 2, peak * 2, HEIGHT - _BOTTOM, _TOP)
    first = max(min(*intensities, ridge) / 2, min(*rates, peak) / 2 / bus_bytes)
    corners = [(first, first * bus_bytes), (ridge, peak), (max(*intensities, ridge) * 2, peak)]
    total = sum(layer["cycles"] for layer in layers)
    points = [
        Point(
            number=number,
            name=layer["name"],
            cycles=layer["cycles"],
            intensity=intensity,
            rate=rate,
            x=x.at(intensity),
            y=y.at(rate),
            radius=round(4 + 10 * math.sqrt(layer["cycles"] / total), 1),
            label="",
            before=False,
        )
        for number, layer, intensity, rate in rated
    ]
    return Roofline(
        xs=list(x.ticks()),
        ys=list(y.ticks()),
        roof=" ".join(f"{x.at(intensity)},{y.at(rate)}" for intensity, rate in corners),
        points=_labelled(points),
        ridge=ridge,
        peak=peak,
        bus_bytes=bus_bytes,
    )


def _labelled(points: list[Point]) -> list[Point]:
    """Returns the points, largest first, so that small ones lie above them; names stand where they cover nothing."""
    ranked = sorted(points, key=lambda each: -each.cycles)
    boxes = [
        (each.x - each.radius, each.x + each.radius, each.y - each.radius, each.y + each.radius) for each in points
    ]
    made: list[Point] = []
    for point in ranked:
        # the end of a long name tells it from others
        text = point.name if len(point.name) <= _NAME else f"\N{HORIZONTAL ELLIPSIS}{point.name[1 - _NAME :]}"
        wide, gap = _LETTER * len(text), point.radius + 4
        for before, begin in ((False, point.x + gap), (True, point.x - gap - wide)):
            box = begin, begin + wide, point.y - _LETTER, point.y + _LETTER
            if begin >= _LEFT and box[1] <= WIDTH - _RIGHT and not any(_overlap(box, other) for other in boxes):
                boxes.append(box)
                made.append(replace(point, label=text, before=before))
                break
        else:
            made.append(point)
    return made


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
