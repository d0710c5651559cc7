"""Make the examples anew: ``python -m worker.examples``.

The ids change with the files. Who has jobs of an older example has lost it then, so do it for a reason.
"""

import hashlib
import json
import shutil
import tempfile
import zipfile
from pathlib import Path

import pydantic

from accel.frontend.read.model_inspection import inspect_model
from accel.program_files.open_program import open_program
from examples.networks import build
from examples.single import Conv, conv_model
from worker.config.settings import Settings
from worker.examples import ACCELERATOR, FILES, INFO, NETWORKS
from worker.execution.job_execution import describe_program, execute
from worker.execution.job_inputs import ModelJobInputs
from worker.execution.tensor_archives import NpzArchive
from worker.records.job_request import JobOptions
from worker.records.uploads import Model, ProgramInfo, Tensors

_LAYER = Conv(channels=8, filters=16, height=8, width=8, relu=True)


def main() -> None:
    """Writes every file: the networks, the model, and the artifacts of its job on ``vta``."""
    home = Path(__file__).parent
    model, program, tensors = (home / FILES[kind] for kind in ("models", "programs", "tensors"))
    model.write_bytes(conv_model(_LAYER).SerializeToString())
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        execute(ModelJobInputs(model, "vta", JobOptions()), out, Settings(), lambda _: None)
        shutil.copyfile(out / "inputs.npz", tensors)
        _shorten(out / "program.zip", program, json.loads((home / ACCELERATOR).read_bytes()))
    for name in NETWORKS:
        network = home / f"{name}.onnx"
        network.write_bytes(build(name).SerializeToString())
        _describe(home, _model(network), name)
    limits = Settings()
    with tensors.open("rb") as file:
        arrays = NpzArchive(file, max_bytes=limits.max_tensors_bytes, max_arrays=limits.max_arrays).tensors
    _describe(home, _model(model), "models")
    _describe(home, ProgramInfo(**_named(program), **describe_program(open_program(program)).model_dump()), "programs")
    _describe(home, Tensors(**_named(tensors), tensors=arrays), "tensors")


def _shorten(source: Path, target: Path, accelerator: object) -> None:
    """Copies a Program file with the short form of its accelerator, which is most of it."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as after:
        for name in before.namelist():
            entry, data = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), before.read(name)
            if name == "program.json":
                entry.compress_type = zipfile.ZIP_DEFLATED
                data = json.dumps(json.loads(data) | {"accelerator": accelerator}, separators=(",", ":")).encode()
            after.writestr(entry, data)


def _model(path: Path) -> Model:
    return Model(**_named(path), **inspect_model(path.read_bytes()).model_dump())


def _named(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    return {"id": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _describe(home: Path, document: pydantic.BaseModel, name: str) -> None:
    (home / f"{name}.{INFO}").write_text(document.model_dump_json(indent=2) + "\n")


if __name__ == "__main__":
    main()
