"""Measured figures as tables, pictures and one page to send."""
