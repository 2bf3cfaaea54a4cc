"""Affine maps: z ↦ W z + b with exact adjoints, one kind per file."""
