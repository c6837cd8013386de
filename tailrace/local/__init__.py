"""The local stack and the embedded server, for a user's own work."""
