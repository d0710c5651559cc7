"""HTTP: routes, schemas and the command line. Everything a request does is in ``routes/``, one file a resource."""
