"""The web page: one process that shows source, capture, topics and lake, and how far each is."""
