"""One process: a publisher of one database, of several, of those of a fleet; its HTTP endpoint."""
