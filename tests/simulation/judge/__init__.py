"""What was published against the model's own history: histories, lines of recovery, the oracle."""
