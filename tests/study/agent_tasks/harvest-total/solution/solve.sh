#!/bin/bash
awk -F, 'NR > 1 { sum += $2 } END { print sum }' harvest.csv > total.txt
