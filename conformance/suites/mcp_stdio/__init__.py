"""Requirements and scenarios for MCP servers on stdio, versions 2025-11-25 and 2026-07-28, a module for each area."""
