"""Calibration: how large a leak a study would detect."""
