"""What serves a client: connections, sessions, batches, procedure calls and what is answered."""
