"""The local stack: Kafka broker, schema registry and embedded SQL Server as child processes."""
