"""A static site of studies, made from what anyone may read of them."""
