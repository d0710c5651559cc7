"""Telling others that a job has ended: an HTTPS request of ours to an address that the job names."""
