"""The error of the analysis."""


class AnalysisError(Exception):
    """A table or plan that cannot be analysed: names the file, row or field, what is wrong and
    what would be right. Holds no instance id, seed or grade."""
