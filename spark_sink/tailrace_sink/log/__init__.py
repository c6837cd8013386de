"""The sink's own data in the lake: the log, the commit table, intents, writer schemas."""
