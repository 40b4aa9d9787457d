"""What a session tells its readers: events made durable first, and signals between them."""
