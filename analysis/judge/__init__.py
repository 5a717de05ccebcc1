"""The quality of LLM judges: agreement, error rates, and drift between arms."""
