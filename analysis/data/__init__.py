"""Tables of results: read, checked, and averaged to one value per seed."""
