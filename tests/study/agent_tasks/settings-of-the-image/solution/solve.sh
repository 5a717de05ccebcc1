#!/bin/bash
tr ' ' '\n' < "$TIDE_TABLE" | sort -n | tail -n 1 > highest.txt
