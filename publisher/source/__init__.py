"""Reading change tables, metadata and positions from SQL Server; the only room that knows pyodbc."""
