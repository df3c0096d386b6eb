"""The command table."""
