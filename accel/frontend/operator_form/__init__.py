"""Models of quantised operators, in QDQ form."""
