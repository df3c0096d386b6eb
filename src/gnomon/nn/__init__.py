"""Bricks: plain numbers and modules in, tensors out; never a config, never a file."""
