import sys

sys.path.insert(0, "/app")
from median import median

assert median([7, 1, 3]) == 3
assert median([40, 10, 20, 30]) == 25
