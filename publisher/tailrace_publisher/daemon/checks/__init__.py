"""What must be true of the source before anything is published."""
