"""Parse mutated accelerator documents as the door does, and count what comes of them.

``python -m tests.fuzz.document_campaign COUNT SEED FOLDER`` prints the counts as JSON. FOLDER/case.txt is always the
document at hand, FOLDER/slowest.txt the one that took longest.
"""

import collections
import faulthandler
import json
import random
import resource
import shutil
import sys
import time
from pathlib import Path

import yaml

from accel.accelerator.text.document_text import MAX_BYTES
from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.load_accelerator import accelerator_id, canonical, load_accelerator, parse_accelerator, preset_names
from accel.errors import CyclopsError
from tests.fuzz.document_mutations import Document, mutated
from tests.fuzz.onnx_campaign import HANGS, clear, peak_bytes
from worker.inspection.upload_tasks import read_accelerator

_MEMORY = 4 << 30  # bytes of address space
_TEN_KEYS = {
    "TARGET": "sim", "HW_VER": "0.0.2", "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5, "LOG_BATCH": 0,
    "LOG_BLOCK": 4, "LOG_UOP_BUFF_SIZE": 15, "LOG_INP_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 18, "LOG_ACC_BUFF_SIZE": 17,
}  # fmt: skip


def main(count: int, seed: int, folder: Path) -> None:
    seeds = seed_documents()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    told: collections.Counter[str] = collections.Counter()
    slowest = 0.0
    case = folder / "case.txt"
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        case.write_bytes(mutated(chance.choice(seeds), chance))
        faulthandler.dump_traceback_later(HANGS, exit=True)
        begin = time.process_time()
        told[parsed(case)] += 1
        took = time.process_time() - begin
        if took > slowest:
            slowest = took
            shutil.copy(case, folder / "slowest.txt")
    faulthandler.cancel_dump_traceback_later()
    peak = peak_bytes()
    json.dump({"slowest": slowest, "peak": peak, "told": told}, sys.stdout)


def parsed(path: Path) -> str:
    """The type of the problem, or ``accepted``; any other exception ends the campaign."""
    if path.stat().st_size > MAX_BYTES:
        return "too-large"
    try:
        accelerator = read_accelerator(path)
    except CyclopsError as error:
        return clear(error)
    # what is kept is what is read again, also from the form for people
    digest = accelerator_id(accelerator)
    for text in (canonical(accelerator), accelerator_yaml(accelerator).encode()):
        assert accelerator_id(parse_accelerator(text)) == digest
    return "accepted"


def seed_documents() -> list[Document]:
    """The presets, whole and as people write them, and the two short forms of VTA."""
    presets = [load_accelerator(name) for name in ("vta", "gemmini", "mvin-mvout", "output-stationary", "vector")]
    assert set(preset_names()) >= {"vta", "gemmini"}
    return [
        *(preset.model_dump(mode="json") for preset in presets),
        *(yaml.safe_load(accelerator_yaml(preset)) for preset in presets),
        _TEN_KEYS,
        {"vta_config": _TEN_KEYS, "variant": {}},
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
