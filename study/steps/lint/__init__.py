"""Check study.yaml, and name what a later step would refuse."""
