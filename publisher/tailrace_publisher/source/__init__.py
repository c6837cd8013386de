"""Reading change tables and metadata from SQL Server: the only room that knows pyodbc."""
