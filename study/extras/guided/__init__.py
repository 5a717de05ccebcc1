"""`init --guided`: questions, and the seeds that the answers need."""
