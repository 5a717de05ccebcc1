"""Outward: releases, dataset card, the Hub, the leak check."""
