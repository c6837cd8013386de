"""The client of the schema registry, and how it authenticates."""
