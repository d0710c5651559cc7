import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from service.cli.settings_reference import settings_page
from worker.config.connection_settings import ConnectionSettings
from worker.config.settings import Settings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "settings.md").read_text()


def test_the_page_is_what_the_settings_are() -> None:
    assert settings_page() == PAGE, "run `make settings`"


def test_every_setting_is_there_once_and_explained() -> None:
    rows = re.findall(r"^\| `CYCLOPS_([A-Z_]+)` \|.*\| (.+) \|$", PAGE, re.MULTILINE)
    assert sorted(name.lower() for name, _ in rows) == sorted(Settings.model_fields)
    assert all(len(meaning) > 10 for _, meaning in rows)


def test_a_row_tells_default_unit_and_least() -> None:
    class Some(ConnectionSettings):
        some_bytes: Annotated[int, Field(ge=1, description="how much | of it")] = 3 << 20

    assert "| `CYCLOPS_SOME_BYTES` | 3145728 (3 MiB) | bytes | 1 | how much \\| of it |" in settings_page(Some)


@pytest.mark.parametrize("path", ["docker-compose.yml", "Dockerfile", "docs/operating.md", "README.md"])
def test_what_others_name_is_a_setting(path: str) -> None:
    if not (ROOT / path).exists():
        pytest.skip(f"no {path}")
    named = set(re.findall(r"CYCLOPS_([A-Z_]+[A-Z])", (ROOT / path).read_text()))
    assert {name.lower() for name in named} <= set(Settings.model_fields)
