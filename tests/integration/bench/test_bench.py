"""The benchmarks run; what they measure is for the reader."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


# what each must print, with its figures
ROWS = {
    "accuracy.py": [r"^SQNR, dB +s8 s8 +u8 s8 +qdq +vta +lead +best", r"^tcn( +-?\d+\.\d){7}$"],
    "answers.py": [r"^cyclops run, ResNet-8, a size changed +vta +\d+\.\d\d +2\.5 +\d", r"^importing TVM takes \d"],
    "compile.py": [r"^compile +\d+\.\d+ +\d+\.\d"],
    "every_example.py": [r"^keyword_spotting: ", r"^all verified$"],
    "float_contraction.py": [r"^row of 32, weights n k +\d+\.\d\d +\d+\.\d\d +\d\.\d{3}"],
    "function.py": [r"^all ten +\d", r"^goal of 0\.5 of onnxruntime's speed .* \d\.\d{3}$"],
    "gemmini_against_library.py": [r"^1 layers: \d+\.\d% at most the library's|^the measured layers are not there"],
    "gemmini_firesim.py": [r"layers, median \d+\.\d%|^the measured layers are not there"],
    "launches.py": [r"^keyword_spotting +[\d,]+ +[\d,]+ +\d+\.\d% +\d\.\d{3} +[\d,]+ +[\d,]+$"],
    "load.py": [r"^ +median ms", r"^at rest +\d+\.\d"],
    "networks.py": [r"^resnet8: compile \d", r"^keyword_spotting: compile \d", r"[\d,]+ cycles, \d\.\d+ of the bound"],
    "pages.py": [r"^an empty page +\d|^nothing is measured"],
    "plans.py": [r"^keyword_spotting +vta +[\d,]+ +[\d,]+ +-?\d+\.\d\d%"],
    "schedules.py": [r"^worst ratio \d\.\d+, best \d\.\d+"],
    "trials.py": [r"^vta +resnet8 +[\d,]+ +[\d,]+ +\d\.\d{4}", r"^quick takes at most \d\.\d{4} times"],
    "timeline.py": [
        r"^a window of [\d,]+ cycles +\d+\.\d .* plain \d",
        r"^every window over HTTP within 50 ms: (yes|no)",
    ],
    "timing.py": [r"instructions: decode and time +\d+\.\d+ +[\d,]+"],
    "trace.py": [r"^[\d,]+ instructions, .* ms$", r" +\d+\.\d"],
    "vector_programs.py": [r"^softmax 1x7x33 +[\d,]+ +\d\.\d\d +\d\.\d\d ", r"^the worst$"],
}
FEW = {
    "accuracy.py": ["tcn", "--accelerators", "vta"],
    "answers.py": ["resized", "--accelerator", "vta"],
    "every_example.py": ["vta", "keyword_spotting"],
    "gemmini_against_library.py": ["--rows", "0"],
    "gemmini_firesim.py": ["--most", "60000"],
    "launches.py": ["keyword_spotting", "--accelerator", "vta"],
    "pages.py": ["--model", "resnet8"],
    "plans.py": ["keyword_spotting", "--accelerators", "vta", "--within", "10"],
    "networks.py": ["resnet8", "keyword_spotting"],
    "trials.py": ["resnet8", "--accelerator", "vta"],
    "load.py": ["cached", "uploads"],
    "vector_programs.py": ["softmax 1x7x33"],
}


@pytest.mark.long
@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "bench").glob("*.py")))
def test_it_prints_a_table(script: str) -> None:
    run = subprocess.run(
        [sys.executable, ROOT / "bench" / script, *FEW.get(script, [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for row in ROWS[script]:
        assert re.search(row, run.stdout, re.MULTILINE), (row, run.stdout)
