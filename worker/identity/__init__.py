"""Identity: who owns what, API keys, and share links."""
