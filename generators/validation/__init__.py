"""The measurements behind ``dosimeter tasks check``, a module for each promise of a family."""
