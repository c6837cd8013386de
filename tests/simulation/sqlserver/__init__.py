"""A SQL Server database with change data capture, as far as a publisher can see it."""
