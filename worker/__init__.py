"""Jobs: the durable record, the store, the queue, and the task that runs a job under limits."""
