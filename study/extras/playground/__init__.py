"""Make instances of the public task families from seeds of one's own, and be graded."""
