"""HTTP for all routes: problems, conditional requests, negotiation, JSON bodies, the API's resources."""
