"""A pilot: a scratch study of few instances before the real one."""
