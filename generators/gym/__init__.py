"""Data sets of reasoning-gym as task families (extra ``gym``)."""
