"""Inspection: uploads, accelerator documents and dry runs, each in a confined process."""
