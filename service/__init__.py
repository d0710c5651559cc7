"""The service: HTTP routes, their middleware, and the command line."""
