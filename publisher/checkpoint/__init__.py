"""Reading back and writing what a restarted publisher goes on from."""
