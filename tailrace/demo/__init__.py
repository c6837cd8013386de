"""The main job on real input: a day of New York's flights, from SQL Server to the lake."""
