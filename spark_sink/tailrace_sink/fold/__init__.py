"""Bring the lake's tables from where they stand to where the log stands, batch by batch."""
