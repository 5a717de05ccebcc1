"""Paid calls: prices, the store of replies, and one budget for all of them."""
