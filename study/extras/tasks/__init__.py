"""Task families for people: list, show, make, check, new."""
