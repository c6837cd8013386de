"""Spans of the traces that both daemons contribute to, and their export to a collector."""
