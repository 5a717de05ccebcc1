"""Rates and gaps of a calibration, and findings by dose."""
