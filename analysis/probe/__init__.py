"""Tests of probes: closed-book answers, texts and markers."""
