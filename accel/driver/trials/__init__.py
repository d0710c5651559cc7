"""Choices by trial: tilings, with their neighbours or in parts, for results that stay, and what the host runs."""
