"""Synchronisation: dependence tokens between the units, and as many contexts of each buffer as may be in flight."""
