"""Digests of what the compiler makes and of the API, to show that a restructuring changes no word, cycle or report.

``python -m tests.fingerprint record`` writes them to ``fingerprint.json`` beside this file, ``python -m
tests.fingerprint check`` compares and names what differs (``make fingerprint``). They prove nothing right: the other
tests do that. A change that means to change a program or a report records them anew, and its commit says why.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from accel.catalog.load_accelerator import load_accelerator, preset_names
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.util.content_cache import FolderCache
from examples.networks import build
from tests.integration.accel.driver.test_exported_models import CASES

_SMALL = ("autoencoder", "keyword_spotting", "resnet8", "visual_wake_words")
_LARGE = ("resnet18", "mobilenet_v2")
_LAYERS = (
    *("relu6", "hard_swish", "leaky", "prelu", "clip_below"),
    *("norm_after_conv", "norm_after_transposed", "norm_after_gemm", "bias_in_disguise", "pad_then_conv"),
    *("depthwise_multiplier", "dilated_depthwise", "lopsided", "groups_of_odd_sizes", "pools"),
    *("lines", "gemm_of_all_kinds", "rows_of_batches", "broadcast_addition", "squeeze_and_excite"),
)
_VARY = ("stages", "compile_seconds", "functions", "provenance")  # seconds, what a cache had, and versions
_FILE = Path(__file__).with_suffix(".json")
_OPENAPI = Path(__file__).parent.parent / "openapi" / "openapi.json"
_WORDING = ("description", "summary")


def cases() -> Iterator[tuple[str, str]]:
    """Networks and single layers with the presets on which they are compiled, the longest first."""
    for preset in ("vta", "gemmini"):
        yield from ((name, preset) for name in _LARGE)
    for preset in preset_names():
        yield from ((name, preset) for name in (*_SMALL, *_LAYERS))


def fingerprint(name: str, preset: str, cache: Path) -> dict[str, Any]:
    """Returns the cycles, and digests of the instruction words and of the report."""
    model = CASES[name].model(CASES[name].opsets[-1]) if name in _LAYERS else build(name)
    options = Options(trace=False, verify_seconds=0)
    with tempfile.TemporaryDirectory() as out:
        folder = Path(out)
        accelerator = load_accelerator(preset)
        report = run_model(model.SerializeToString(), accelerator, options, folder, cache=FolderCache(cache))
        words = (folder / "instructions.bin").read_bytes()
        kept = {key: value for key, value in report.model_dump(mode="json").items() if key not in _VARY}
    text = json.dumps(kept, sort_keys=True).encode()
    return {"cycles": report.cycles, "words": _digest(words), "report": _digest(text)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def fingerprints(processes: int) -> dict[str, dict[str, Any]]:
    """Returns the fingerprint of each case, by ``preset/name``."""
    with (
        tempfile.TemporaryDirectory() as cache,
        ProcessPoolExecutor(processes, get_context("spawn")) as pool,
    ):
        running = {f"{preset}/{name}": pool.submit(fingerprint, name, preset, Path(cache)) for name, preset in cases()}
        return {case: running[case].result() for case in sorted(running)}


def interface() -> str:
    """Returns the digest of ``openapi.json`` but for its prose: paths, parameters, schemas and their names."""
    return _digest(json.dumps(_without_wording(json.loads(_OPENAPI.read_text())), sort_keys=True).encode())


def _without_wording(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_wording(inner)
            for key, inner in value.items()
            if not (key in _WORDING and isinstance(inner, str))
        }
    return [_without_wording(inner) for inner in value] if isinstance(value, list) else value


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns a line for each case that is not as it was."""
    return [
        f"{case}: {before.get(case, 'was not there')} -> {now.get(case, 'is gone')}"
        for case in sorted({*before, *now})
        if before.get(case) != now.get(case)
    ]


def main() -> int:
    """Record or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "check"])
    parser.add_argument("file", type=Path, nargs="?", default=_FILE)
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    now = {"openapi": interface(), **fingerprints(chosen.processes)}
    if chosen.what == "record":
        lines = ",\n".join(f" {json.dumps(case)}: {json.dumps(value)}" for case, value in now.items())
        chosen.file.write_text("{\n" + lines + "\n}\n")
        return 0
    found = differences(json.loads(chosen.file.read_text()), now)
    sys.stdout.write("".join(f"{line}\n" for line in found[:40]) or f"{len(now)} cases are as they were\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
