"""Read topics, change tables and the lake; parse and show names, moments and events."""
