"""The command line of an example: write its model to a file."""

import argparse
from collections.abc import Callable
from pathlib import Path

import onnx


def write_model(make: Callable[[int], onnx.ModelProto], description: str) -> None:
    """Write ``make(seed)`` to the file named on the command line; the help shows the description's first line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.write_bytes(make(arguments.seed).SerializeToString())
