"""``python alone.py PROGRAM COUNT``: a program's job without the service, as a worker would fork it; prints JSON.

``wall`` and ``cpu`` are medians of what ``execute`` takes, in seconds.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from accel.catalog.load_accelerator import load_accelerator
from accel.simulate.prepare_simulation import prepare
from worker.config.settings import Settings
from worker.execution.job_execution import execute
from worker.execution.job_inputs import ProgramJobInputs
from worker.process.children import share_with_children, use_large_pages
from worker.records.job_request import JobOptions
from worker.runner.worker_main import preload


def _once(program: Path, settings: Settings) -> tuple[float, float]:
    """Wall and processor seconds, in a process of its own."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        with tempfile.TemporaryDirectory() as out:
            wall, cpu = time.perf_counter(), time.process_time()
            execute(
                ProgramJobInputs(program, None, JobOptions(engine="timing"), None), Path(out), settings, lambda _: None
            )
            figures = time.perf_counter() - wall, time.process_time() - cpu
        os.write(writes, json.dumps(figures).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        wall, cpu = json.loads(pipe.read())
    os.waitpid(pid, 0)
    return wall, cpu


def main() -> None:
    preload(())
    prepare(load_accelerator("vta"))
    settings = Settings()
    share_with_children()
    use_large_pages()  # as of a worker that stays
    figures = [_once(Path(sys.argv[1]), settings) for _ in range(int(sys.argv[2]))]
    walls, cpus = zip(*figures, strict=True)
    print(json.dumps({"wall": statistics.median(walls), "cpu": statistics.median(cpus)}))


if __name__ == "__main__":
    main()
