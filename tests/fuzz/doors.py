"""A service to be tried at its doors, with something in it; and schemathesis, which tries them."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accel.catalog.load_accelerator import canonical, load_accelerator
from examples.single import Conv, conv_model
from tests.conftest import ROOT, Service, running_service
from tests.helpers.npz import npz_of
from tests.helpers.programs.hand_programs import addition, zipped
from worker.identity.api_keys import ApiKeys
from worker.storage.object_store import Store

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth,"
    "use_after_free"
)
# nothing is refused for how often it was asked, and nobody waits long
ENVIRONMENT = {
    "CYCLOPS_AUTH": "keys",
    "CYCLOPS_RATE_READS": "0",
    "CYCLOPS_RATE_SUBMISSIONS": "0",
    "CYCLOPS_RATE_UPLOADS": "0",
    "CYCLOPS_WAIT_SECONDS": "1",
    "CYCLOPS_STREAM_HEARTBEAT_SECONDS": "1",
}
COLLECTIONS = ("models", "programs", "tensors", "accelerators", "jobs")


@dataclass(frozen=True)
class Doors:
    """``known`` is the file that ``door_hooks.py`` reads; ``job`` the id of one that has succeeded."""

    service: Service
    key: str
    known: Path
    job: str


@contextlib.contextmanager
def doors(directory: Path) -> Iterator[Doors]:
    """A service that needs keys, with uploads and jobs, some of which may be deleted."""
    with running_service(directory / "data", **ENVIRONMENT) as service:
        key = ApiKeys(Store(service.data / "store")).add("tester")[1]
        service.client.headers["Authorization"] = f"Bearer {key}"
        known = directory / "known.json"
        files = _files(directory)
        ids = {which: {name: [] for name in COLLECTIONS} for which in ("kept", "spare")}
        for collection, paths in files.items():
            for which, path in zip(("kept", "spare"), paths, strict=True):
                answer = service.client.post(f"/v1/{collection}", content=Path(path).read_bytes())
                ids[which][collection].append(answer.raise_for_status().json()["id"])
        model, program = ids["kept"]["models"][0], ids["kept"]["programs"][0]
        for which, request in (("kept", {"model": model, "accelerator": "vta"}), ("spare", {"program": program})):
            posted = service.client.post("/v1/jobs", json=request).raise_for_status()
            ids[which]["jobs"].append(service.wait(posted.headers["Location"])["id"])
        known.write_text(json.dumps(ids | {"files": files}))
        yield Doors(service, key, known, ids["kept"]["jobs"][0])


def _files(directory: Path) -> dict[str, list[str]]:
    """Two files for each collection of uploads."""
    models = [conv_model(Conv(16, 16, 8, side)).SerializeToString() for side in (8, 6)]
    presets = [load_accelerator("vta").model_copy(update={"title": f"number {number}"}) for number in range(2)]
    contents = {
        "models": models,
        "tensors": [npz_of(model) for model in models],
        "programs": [zipped(addition()), zipped(addition(tokens=False))],
        "accelerators": [canonical(preset) for preset in presets],
    }
    files: dict[str, list[str]] = {}
    for collection, listed in contents.items():
        for number, content in enumerate(listed):
            path = directory / f"{collection}-{number}"
            path.write_bytes(content)
            files.setdefault(collection, []).append(str(path))
    return files


def tried(at: Doors, directory: Path, *options: str, seconds: float) -> tuple[int, str]:
    """Have schemathesis try all operations; gives its exit status and what it says.

    It runs in a process of its own, because what it registers when it is imported is for all tests of a process.
    """
    # methods that a path has not are tried as they are, elsewhere: of each path all
    (directory / "schemathesis.toml").write_text("[phases.coverage]\nunexpected-methods = []\n")
    hooks = {
        "CYCLOPS_KNOWN": str(at.known),
        "SCHEMATHESIS_HOOKS": "tests.fuzz.door_hooks",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [
            SCHEMATHESIS, "run", f"{at.service.url}/openapi.json", "--checks", CHECKS, "--continue-on-failure",
            "--suppress-health-check", "all", "--request-timeout", "20", "--warnings", "off", "--no-color",
            "--header", f"Authorization: Bearer {at.key}", *options,
        ],
        cwd=directory,
        env=os.environ | hooks,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout
