"""Events of jobs: one subscription to Redis for all clients, and a stream of server-sent events for each."""
