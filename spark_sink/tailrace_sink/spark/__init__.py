"""The Spark session, its JVM's names and errors, and the class archive of its start."""
