"""Bounding methods: one frozen record of hyper-parameters per file, with the paper's values as defaults."""
