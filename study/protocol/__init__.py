"""study.yaml: read whole, checked, and refused with the line that is wrong."""
