"""CPU per exchange of the plain HTTP client, and 16,000 requests at the same moment."""
