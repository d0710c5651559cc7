"""The catalogue of accelerators: presets and files, checked by their family, and the schema of a document."""
