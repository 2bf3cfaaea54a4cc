"""Intermediate bounds: strategies that bound every hidden layer, one per file."""
