"""A worker as a process of its own: ``python -m worker.runner``, as ``worker/runner/worker_pool.py`` starts it."""

from worker.process.collection import collection_paused

with collection_paused():
    from worker.config.settings import Settings
    from worker.runner.worker_main import run_worker

run_worker(Settings())
