"""Pages of change rows: their size, their statements, who reads them, and their order."""
