"""A Chromium for the tests of pages, one for each process of the tests."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.helpers.chromium import PROGRAM, running_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if PROGRAM is None and "TESTS_NEED_CHROMIUM" not in os.environ:
        pytest.skip("there is no chromium on this machine; Debian's package of that name has it")
    with running_chromium() as browser:
        yield browser
