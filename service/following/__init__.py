"""Following a job: its events as they come, and waiting for its end."""
