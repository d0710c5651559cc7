"""Checks of a document, by subject; each refuses with the path of the field at fault."""
