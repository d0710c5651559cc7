"""Identity: ownership, API keys, and share links."""
