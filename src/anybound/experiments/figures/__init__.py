"""Figures: each file draws one from records."""
