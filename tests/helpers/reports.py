"""Reports as jobs leave them, with names of a test's choosing."""

from typing import Any

from accel.accelerator.timing_model import TimingModel
from accel.catalog.load_accelerator import accelerator_id, load_accelerator
from accel.report.documents.report_documents import (
    DocumentSource,
    HostOp,
    Macs,
    ProgramSize,
    ProgramWarning,
    Provenance,
    Quality,
    Report,
    ReportedLayer,
    StageTime,
    UnitTime,
    Versions,
)


def layer(name: str, **more: Any) -> ReportedLayer:
    """A launch of 1,000 cycles that does 64,000 of 256,000 multiply-accumulates."""
    values = {
        "op": "conv2d",
        "nodes": [name],
        "macs": 64_000,
        "cycles": 1000,
        "lower_bound": 800,
        "utilisation": 0.25,
        "gemm_share": 0.5,
        "limited_by": "compute",
        "limit_share": 0.9,
        "load_overlap": 0.5,
        "bytes_read": 4000,
        "bytes_written": 1000,
        "instructions": 10,
    }
    return ReportedLayer(name=name, **(values | more))


def report(name: str = "layer", **more: Any) -> Report:
    """A report of two layers on ``vta``, in which every text that a user could choose is ``name``."""
    versions = dict.fromkeys(Versions.model_fields, "1")
    document = DocumentSource(
        name="vta", title=name, label=name, sha256=None, id=accelerator_id(load_accelerator("vta"))
    )
    provenance = Provenance(
        versions=Versions(**versions), cpu=None, model="0" * 64, program=None, accelerator=document,
        inputs=None, calibration=None, options={"seed": 0, "dims": {name: 1}},
    )  # fmt: skip
    stalled = {"fetch": 100, "load_to_compute": 300, "memory": 50, name: 150}
    values: dict[str, Any] = {
        "accelerator": "vta",
        "provenance": provenance,
        "verified": True,
        "cycles": 2000,
        "macs": Macs(total=128_000, accelerator=128_000, share=1.0),
        "units": {name: UnitTime(instructions=7, busy=1250, stalled=stalled, idle=200)},
        "warnings": [ProgramWarning(kind="never-written", launch=name, instruction=3, detail=name)],
        "layers": [layer(name), layer(f"{name} 2", cycles=1000, macs=64_000)],
        "host_ops": [HostOp(node=name, op=name, reason=name), HostOp(node=f"{name} 2", op=name, reason=name)],
        "quantisation": [Quality(output=name, sqnr_db=30.0, cosine=0.999)],
        "program": ProgramSize(instructions=20, launches=2, host_steps=1, dram_bytes=4096),
        "timing_model": TimingModel(
            statement=name, calibrated=False, exact=0, of=0, worst_percent=None, outside=[name]
        ),
        "stages": [StageTime(name=name, seconds=0.25)],
    }
    return Report(**(values | more))
