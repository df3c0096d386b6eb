"""Families of backbones, their configurations, and the one model type over them."""
