"""Write the folder of a new study."""
