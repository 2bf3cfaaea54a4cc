"""Bounds: the dual function, the methods that ascend it, and intermediate bounds."""
