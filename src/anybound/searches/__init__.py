"""Searches by name: each decides the clauses that the bounds of the root leave open."""
