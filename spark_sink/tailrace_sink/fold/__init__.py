"""Apply the log to the lake's tables, batch by batch."""
