"""Jobs as requests make and name them: submission, webhooks, the wait preference, ids in paths."""
