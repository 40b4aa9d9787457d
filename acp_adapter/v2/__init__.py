"""ACP version 2, a draft."""
