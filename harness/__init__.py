"""Runs episodes: models, agent loop, tools, sandboxes, grading, sweeps on Ray.

Its modules log what an operator needs, and no prompt, seed, key, reply or instance.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())
