from .run import DemoRequest, Display, run_demo

__all__ = ["DemoRequest", "Display", "run_demo"]
