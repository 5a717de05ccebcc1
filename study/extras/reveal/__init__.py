"""Publish the seeds of a tranche, so that anyone can check the draw."""
