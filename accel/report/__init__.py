"""Reports: what ran where, how long it took and how far to trust it; their documents, and their computation."""
