"""How far each stage is: lag of each table, stopped tables, and the verdict on it all."""
