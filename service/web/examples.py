"""Example models that a newcomer may choose on the start page, made when they are asked for first."""

import functools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from worker.examples import example

_SECONDS = 120


class ExampleModel(NamedTuple):
    """An example: its name in forms, what people call it, and what it is."""

    name: str
    title: str
    summary: str


EXAMPLES = (
    ExampleModel("resnet8", "ResNet-8", "image classification of MLPerf Tiny: 12.5 M multiply-accumulates"),
    ExampleModel("keyword_spotting", "Keyword spotting", "DS-CNN of MLPerf Tiny: depthwise convolutions, 2.7 M"),
    ExampleModel("convolution", "One convolution", "8 to 16 channels, 8 by 8 pixels, quantised: done in a second"),
)


@functools.cache
def example_model(name: str, scratch: Path) -> bytes:
    """Returns the ONNX file of an example, the same each time; ``scratch`` holds it while it is made.

    A process of its own makes it, as this one loads neither ONNX nor the compiler.

    Raises:
        KeyError: there is no such example.
        OSError: no process can be started for it.
        subprocess.SubprocessError: it could not be made.
    """
    if name not in {each.name for each in EXAMPLES}:
        raise KeyError(name)
    if name == "convolution":
        return example("models").path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="example-", dir=scratch) as directory:
        path = Path(directory) / "model.onnx"
        subprocess.run([sys.executable, "-P", "-m", "examples", name, path], check=True, timeout=_SECONDS)
        return path.read_bytes()
