#!/bin/bash
awk '{ print length($0), $0 }' words.txt | sort -k 1n -k 2 | cut -d ' ' -f 2 > sorted.txt
