"""Given items as families (``family``), pools of them, and the names that others need of them."""

import re

NAME, HARBOR, VERSION = "items", "harbor", "1"
CONTEXT, DOCKERFILE = "environment/", "environment/Dockerfile"
TESTS, SOLUTIONS = "tests/", "solution/"
REWARD = "the reward of the verifier"  # what a run of the verifier is given as
STRATUM = re.compile("[a-z0-9][a-z0-9_]{0,62}")
