"""Tables: each file makes one from records."""
