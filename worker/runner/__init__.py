"""The runner: the worker, the supervisor of its jobs, and the confined process of each job."""
