"""Programs that solve the small families, as scripted agents run them in the sandbox."""
