from .closed_book import Exposure, test_exposure
from .membership import MEASURES, TextExposure, test_texts

__all__ = ["MEASURES", "Exposure", "TextExposure", "test_exposure", "test_texts"]
