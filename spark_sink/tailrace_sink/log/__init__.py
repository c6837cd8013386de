"""What the lake stores of the sink itself: the log, the commit table, intents, writer schemas."""
