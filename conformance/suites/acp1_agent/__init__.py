"""Requirements and scenarios for agents that speak version 1 of the Agent Client Protocol, a module for each area."""
