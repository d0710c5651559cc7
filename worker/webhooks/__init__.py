"""Webhooks: HTTPS requests that report the end of a job to a URL that its submission names."""
