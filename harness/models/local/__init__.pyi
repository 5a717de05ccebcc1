from .model import LocalModel
from .weights import WEIGHTS, Weights, find_weights, holds, weights_path

__all__ = ["WEIGHTS", "LocalModel", "Weights", "find_weights", "holds", "weights_path"]
