"""Estimators, permutation tests and corrections, free of any plan or table."""
