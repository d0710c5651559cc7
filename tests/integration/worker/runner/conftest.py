"""Fixtures of the runner's integration tests."""

from pathlib import Path

import pytest

from worker.config.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a worker whose scratch folder is there."""
    settings = Settings(data=tmp_path / "data")
    settings.scratch_dir.mkdir(parents=True)
    return settings
