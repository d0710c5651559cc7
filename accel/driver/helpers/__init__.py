"""What works beside a job: processes that lower and quantise for it, and the thread of its reference."""
