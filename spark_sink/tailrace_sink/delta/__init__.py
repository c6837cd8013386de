"""Commits to Delta tables: transactions, fences, conflicts, and the reads that they need."""
