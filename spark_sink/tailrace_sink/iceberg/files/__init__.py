"""Files of an Iceberg table: which there are, their deleted rows, and commits without Spark."""
