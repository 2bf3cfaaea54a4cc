"""Properties for a network: around every correct image a ball that is neither easy to prove nor to break."""
