"""Execution: jobs and dry runs on local files, their inputs and their failures, for the worker and the command line."""
