"""A teacher's behaviour projected onto a smaller family of functions."""
