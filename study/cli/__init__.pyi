from .output import print_json, print_records, progress_watch, stdout, sweep_watch

__all__ = ["print_json", "print_records", "progress_watch", "stdout", "sweep_watch"]
