"""ASGI middleware: observation, bodies, compression, security headers, cross-origin rules, access control."""
