"""Reports: what ran where, how long it took and how far to trust it, as documents and what fills them."""
