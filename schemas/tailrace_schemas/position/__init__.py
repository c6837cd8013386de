"""LSNs and positions: the order of all changes of a database."""
