"""Sessions made, named, found, loaded, forked and closed."""
