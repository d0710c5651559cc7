"""How pages are rendered: templates and their filters, links, the bundle of scripts, static files."""
