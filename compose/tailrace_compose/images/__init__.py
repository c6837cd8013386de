"""The images: Dockerfiles, what runs inside them, and ``make images``, which builds them here."""
