"""``tailrace verify``: compare the source with a cut of the lake, row by row."""
