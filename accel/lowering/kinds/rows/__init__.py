"""Functions of whole rows: how rows are cut into tiles, what they compute, and their nests."""
