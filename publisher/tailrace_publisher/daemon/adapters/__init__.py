"""The real parts that the ports stand for: SQL Server, Kafka, registry, clock, threads."""
