"""The memorability ladder: families of text with keys from 8 to 512 bits (docs/ladder.md)."""
