"""Commands for evidence: draws and reveals, and the keys of a study."""
