"""The sandbox: limits and confinement of processes that work on uploads, and the server that forks them."""
