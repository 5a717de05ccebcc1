"""Models of every kind: providers, local weights, and scripted agents."""
