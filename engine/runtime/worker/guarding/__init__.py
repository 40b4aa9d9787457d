"""Acts outside the namespace: how they are noticed, which statement they come from, and how a replay stops them."""
