"""What a model is made of, and what may be changed in it before anything else reads it."""
