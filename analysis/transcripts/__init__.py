"""How models used their tools."""
