"""Draws: seeds at random, announced, allotted to arms by a value of later, and revealed."""
