"""Jobs: their records, the store, the queue, the sandbox, and the processes that run them."""
