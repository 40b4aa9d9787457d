"""What a statement changed in the namespace, and how that is found without comparing everything."""
