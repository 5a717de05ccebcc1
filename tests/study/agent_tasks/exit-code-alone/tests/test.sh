#!/bin/sh
cmp -s sorted.txt /tests/expected.txt
