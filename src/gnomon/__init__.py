"""gnomon: small, fast language models, and proof of what they cost."""

__version__ = "0.1.0"
