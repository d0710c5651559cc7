"""Third parties' vectors, which lie beside the project and are not part of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "golden" / "vta"

needs_golden = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is absent")


def documents(name: str) -> Any:
    return json.loads((FOLDER / name).read_text()) if FOLDER.is_dir() else {}


def words(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / name) as data:
        return {key: data[key].view(np.uint64) for key in data.files}


def board() -> Accelerator:
    """The configuration that the vectors were recorded on."""
    return vta_accelerator(VtaConfig(), name="vta", title="VTA")
