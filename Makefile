# make demo: a whole small study. make test: every check and test but the slow ones.
# Each does all that it needs, on a bare Debian or Ubuntu with Python 3.11 or later, as root;
# without root it says what is missing and runs what can run.
.PHONY: help demo test test-all lint bench gallery setup engine image lock clean

help:
	@echo "make demo      run a complete small study (about four minutes after installation)"
	@echo "make test      lint, types, import directions, and the tests but the slow ones"
	@echo "make test-all  the slow tests too"
	@echo "make lint      lint, types, import directions"
	@echo "make bench     every benchmark, one line of JSON each"
	@echo "make gallery   docs/gallery.md anew, an example of each task family"
	@echo "make setup     only .venv;  make engine  only Docker;  make image  only the sandbox image"
	@echo "make lock      write the locks anew"
	@echo "make clean     remove .venv, caches and the demo's study"

setup:
	@scripts/setup

engine: setup
	@scripts/engine

image: engine
	@.venv/bin/python -m harness.sandboxes.image

demo: setup
	@scripts/demo

test: setup
	@scripts/check

test-all: setup
	@scripts/check all

lint: setup
	@scripts/lint

bench: image
	@scripts/bench

gallery: setup
	@.venv/bin/python -m study.tasks.gallery

lock: setup
	@scripts/lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis demo-study
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
