"""Branching rules, one per file."""
