"""The queue: RQ's messages, the order of owners, leases of running jobs, reconciliation with the store, statistics."""
