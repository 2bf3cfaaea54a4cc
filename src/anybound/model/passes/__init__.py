"""Passes: rewrites of a network that keep its function, one per file."""
