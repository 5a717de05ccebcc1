"""LLM judges: their prompts and verdicts, and answer sheets to measure them."""
