"""Commands that work in this process, without a service."""
