"""The error of the analysis."""


class AnalysisError(Exception):
    """A table or plan that cannot be analysed: names the file, row or field, the fault and
    the valid form. Contains no instance id, seed or grade."""
