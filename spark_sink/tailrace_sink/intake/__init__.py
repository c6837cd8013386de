"""Take events from Kafka into the log, one cut per append, each ledgered and fenced."""
