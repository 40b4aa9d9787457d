"""The editor side: an agent that speaks the Agent Client Protocol (ACP) on its standard streams."""
