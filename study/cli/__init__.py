"""The command line of dosimeter: one module for each group of commands."""
