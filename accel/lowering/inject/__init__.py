"""Inject: each nest under a pragma becomes calls of an instruction that does the same."""
