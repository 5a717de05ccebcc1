"""Scripted agents and model providers."""
