"""What is seen of the source, and what page and commands make of it."""
