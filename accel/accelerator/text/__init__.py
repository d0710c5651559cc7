"""Documents as text, JSON or YAML: parsed, written, and with the line of each part."""
