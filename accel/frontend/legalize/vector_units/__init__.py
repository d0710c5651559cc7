"""Legalization for machines that compute in floats: operators said by others, of which vector programs are made."""
