#!/bin/bash
sort -u crates/* | wc -l > tools.txt
