from . import tasks
from .api import StudyView, open_study

__all__ = ["StudyView", "open_study", "tasks"]
