"""The editor side: process streams, JSON-RPC and the shapes of the Agent Client Protocol."""
