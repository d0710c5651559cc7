"""Deletion of jobs and uploads, on request and by policy."""
