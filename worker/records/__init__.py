"""Records: jobs, uploads, accelerators and artifacts as documents in the store, and the index of jobs in Redis."""
