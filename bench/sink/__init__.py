"""Benchmarks of the sink."""
