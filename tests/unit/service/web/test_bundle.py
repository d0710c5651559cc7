"""The tags that load an island, by the manifest that Vite writes."""

import json
from pathlib import Path

import pytest

from service.web.templating.bundle import FOLDER, Bundle

MANIFEST = {
    "src/entries/chart.ts": {
        "file": "chart-1.js",
        "name": "chart",
        "isEntry": True,
        "imports": ["_shared.js"],
        "dynamicImports": ["src/chart/chart.ts"],
        "css": ["chart-1.css"],
    },
    "_shared.js": {"file": "shared-2.js", "name": "shared", "css": ["shared-2.css"]},
    "src/chart/chart.ts": {"file": "chart-3.js", "name": "chart", "isDynamicEntry": True},
}


def written(folder: Path) -> Path:
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    for chunk in MANIFEST.values():
        for name in (chunk["file"], *chunk.get("css", ())):
            (folder / str(name)).touch()
    return folder


def test_an_island_loads_its_styles_and_what_its_script_imports(tmp_path: Path) -> None:
    assert Bundle.read(written(tmp_path)).island("chart").split("\n") == [
        '<link rel="stylesheet" href="/static/dist/chart-1.css">',
        '<link rel="stylesheet" href="/static/dist/shared-2.css">',
        '<link rel="modulepreload" href="/static/dist/shared-2.js">',
        '<script type="module" src="/static/dist/chart-1.js"></script>',
    ]


def test_an_island_that_nobody_built(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="graph"):
        Bundle.read(written(tmp_path)).island("graph")


def test_a_bundle_that_is_missing_or_incomplete(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"manifest\.json.*`make web` builds them"):
        Bundle.read(tmp_path)
    (written(tmp_path) / "shared-2.js").unlink()
    with pytest.raises(RuntimeError, match=r"are missing: shared-2\.js; `make web`"):
        Bundle.read(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(RuntimeError, match="`make web`"):
        Bundle.read(tmp_path)


def test_the_committed_bundle_is_whole_and_small_at_first() -> None:
    bundle = Bundle.read()
    entry = next(chunk for chunk in bundle.chunks.values() if chunk.entry and chunk.name == "timeline")
    assert (FOLDER / entry.file).stat().st_size < 5_000
    named = {name for chunk in bundle.chunks.values() for name in (chunk.file, *chunk.css)}
    # a worker is no chunk: the script that starts it has its name
    texts = [path.read_text() for path in FOLDER.glob("timeline-*.js")]
    workers = {path.name for path in FOLDER.glob("worker-*.js") if any(path.name in text for text in texts)}
    assert len(workers) == 1
    assert {path.name for path in FOLDER.iterdir()} == named | workers | {"manifest.json", "licenses.md"}
    for path in FOLDER.glob("*.js"):
        assert "sourceMappingURL" not in path.read_text()
