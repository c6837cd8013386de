"""Benchmarks, side by side with a peer or a ceiling in one run."""
