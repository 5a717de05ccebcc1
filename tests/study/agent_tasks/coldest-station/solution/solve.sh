#!/bin/bash
sort -t "$(printf '\t')" -k 2 -g stations.tsv | head -n 1 | cut -f 1 > answer.txt
