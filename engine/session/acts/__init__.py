"""What statements ask of the host: questions to the user, the acts themselves, and their record."""
