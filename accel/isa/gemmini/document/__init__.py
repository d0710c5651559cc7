"""Documents of a Gemmini: its parameters, its words, and what of a document follows from them."""
