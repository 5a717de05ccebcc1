"""The registered plan: its presets, and every test that it runs at a look."""
