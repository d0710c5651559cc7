"""Reports as documents, and what can be read off them; importing them loads no compiler."""
