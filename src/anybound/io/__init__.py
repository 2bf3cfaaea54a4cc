"""Readers and writers: networks, properties, records. Nothing here is trusted to be well formed."""
