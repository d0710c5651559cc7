"""The pages: a module a page with its routes, what their forms send, and problems as pages."""
