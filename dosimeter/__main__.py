"""``python -m dosimeter``: the command line."""

from study.main import main

if __name__ == "__main__":
    main(prog_name="dosimeter")
