"""Pages: what people see of the service in a browser, rendered by it from what the API answers."""
