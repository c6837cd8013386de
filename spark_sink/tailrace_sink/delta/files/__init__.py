"""Files of a Delta table: their form, keys and deletion vectors."""
