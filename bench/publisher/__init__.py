"""Benchmarks of the publisher."""
