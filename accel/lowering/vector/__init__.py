"""Vector programs: the host's operators as statements that instructions of a vector unit do, grouped into regions."""
