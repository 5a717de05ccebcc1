"""Levels above the instance: a leak that lifts fresh instances of what was published too."""
