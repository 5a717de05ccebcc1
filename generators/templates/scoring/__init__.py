"""Scoring of templated answers, strict and lenient."""
