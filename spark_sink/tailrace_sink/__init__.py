"""From topics to lake tables: progress-driven micro-batches of Spark."""
