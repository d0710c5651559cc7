"""Callers: who asks, with which key, how often, and how many requests at once."""
