"""Capture instances that a publisher creates and drops."""
