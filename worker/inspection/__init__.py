"""Inspection: uploads, accelerator documents and dry runs, each examined in a confined process."""
