"""The template language: files, placeholders, variables and data types."""
