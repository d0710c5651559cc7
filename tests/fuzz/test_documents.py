"""Mutated accelerator documents: accepted, or refused with a clear error, in bounded time and memory."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from service.http.problems import SERVICE_TYPES, accel_types
from tests.conftest import ROOT, Service
from tests.fuzz.document_campaign import seed_documents
from tests.fuzz.document_mutations import mutated
from tests.fuzz.onnx_campaign import HANGS
from tests.helpers.marking import share
from worker.records.problem_details import LONGEST

TYPES = {f"/problems/{slug}" for slug in (*SERVICE_TYPES, *accel_types())}
MEMORY = 1 << 30  # bytes that the process may come to: these are read in the api itself
SECONDS = 3.0  # of processor for one document


def campaign(folder: Path, count: int, seed: int, seconds: float) -> Counter[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.document_campaign", str(count), str(seed), str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + str((folder / "case.txt").read_bytes()[:2000])
    result = json.loads(done.stdout)
    assert result["slowest"] < SECONDS, (folder / "slowest.txt").read_bytes()[:2000]
    assert result["peak"] < MEMORY
    print(json.dumps(result))  # noqa: T201 - what was met
    return Counter(result["told"])


def upload(service: Service, seed: int, count: int) -> Counter[int]:
    seeds, statuses = seed_documents(), Counter()
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        answer = service.client.post("/v1/accelerators", content=mutated(chance.choice(seeds), chance))
        assert answer.status_code in {201, 413, 422}, answer.text
        statuses[answer.status_code] += 1
        if answer.status_code != 201:
            assert answer.json()["type"] in TYPES
            assert answer.json()["field"] is not None
            assert len(answer.json()["detail"]) <= LONGEST
    return statuses


@pytest.mark.slow
def test_hundreds_of_mutated_documents(tmp_path: Path, service: Service) -> None:
    count, uploads = share(400), share(120)
    told = campaign(tmp_path, count, 3, 120)
    assert told["accepted"] > count // 30
    assert upload(service, 4, uploads)[422] > uploads // 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_thousand_mutated_documents(tmp_path: Path, service: Service) -> None:
    told = campaign(tmp_path, 10_000, 2, 600 + HANGS)
    assert {"accepted", "invalid-accelerator", "accelerator-too-large"} <= set(told)
    assert told["accepted"] > 500
    assert upload(service, 5, 200)[201] > 5
