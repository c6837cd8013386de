"""The published tables: their states, capture instances, schema versions, topics, switches."""
