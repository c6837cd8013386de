"""The Spark session and its JVM's names and errors."""
