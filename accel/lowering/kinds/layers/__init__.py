"""Regions by instructions as large as a layer: their schedules, and tiles as large as fields and memories allow."""
