"""Tables and plan in, verdicts, figures and reports out."""
