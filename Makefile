# make demo: a whole small study. make test: every check and test but the slow ones.
# Each installs what it needs on a bare Debian or Ubuntu with Python 3.11 or later, as root;
# without root it names what is missing and runs what can run.
.PHONY: help demo calibrate calibrate-pretrained check test test-all lint docs reference gallery bench setup engine image lock clean

help:
	@echo "make demo       run a complete small study (about four minutes after installation)"
	@echo "make calibrate  train small models on a release at known doses, and find them (needs spike.lock)"
	@echo "make calibrate-pretrained  the same with a pretrained model, an hour (needs pretrained.lock)"
	@echo "make check      lint, types, and the fast tests that your change touches (under two minutes)"
	@echo "make test       lint, types, import directions, and the tests but the slow ones"
	@echo "make test-all   the slow tests too"
	@echo "make lint       lint, types, import directions"
	@echo "make docs       the documentation site, in build/docs"
	@echo "make reference  write the tables of the two reference pages again"
	@echo "make gallery    write docs/gallery.md again, an example of each task family"
	@echo "make bench      every benchmark, one line of JSON each"
	@echo "make setup      only .venv;  make engine  only Docker;  make image  only the sandbox image"
	@echo "make lock       write the locks again"
	@echo "make clean      remove .venv, caches, build and the demo's and calibration's studies"

setup:
	@scripts/setup

engine: setup
	@scripts/engine

image: engine
	@.venv/bin/python -m harness.sandboxes.image

demo: setup
	@scripts/demo

calibrate: setup
	@.venv/bin/python -m examples.calibration.run

calibrate-pretrained: setup
	@.venv/bin/python -m examples.calibration.pretrained

check: setup
	@scripts/check

test: setup
	@scripts/test

test-all: setup
	@scripts/test all

lint: setup
	@scripts/lint

docs: setup
	@scripts/docs

reference: setup
	@.venv/bin/python scripts/study_yaml_page.py
	@.venv/bin/python scripts/template_page.py
	@.venv/bin/python scripts/gym_page.py

gallery: setup
	@.venv/bin/python scripts/gallery.py

bench: image
	@scripts/bench

lock: setup
	@scripts/lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build demo-study calibration-study pretrained-study
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
