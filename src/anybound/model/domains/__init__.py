"""Input sets over which linear functions are minimised in closed form, one kind per file."""
