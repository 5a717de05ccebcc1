"""Calibration of a study, from stored scores or with agents that know a release."""
