from .closed_book import Exposure, exposure_json, test_exposure
from .membership import MEASURES, TextExposure, test_texts, text_exposure_json

__all__ = [
    "MEASURES",
    "Exposure",
    "TextExposure",
    "exposure_json",
    "test_exposure",
    "test_texts",
    "text_exposure_json",
]
