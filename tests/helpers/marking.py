"""Values of parametrised tests of which a few are enough every time."""

from collections.abc import Iterable
from typing import Any

import pytest


def rest_slow(values: Iterable[Any], keep: int = 1) -> list[Any]:
    """The values; those after the first ``keep`` are of slow tests."""
    return [
        value if index < keep else pytest.param(*_arguments(value), marks=pytest.mark.slow)
        for index, value in enumerate(values)
    ]


def _arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
