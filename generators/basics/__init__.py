"""The two smallest families: count circles in images, average numbers in a file."""
