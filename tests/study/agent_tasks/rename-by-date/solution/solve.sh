#!/bin/bash
cd photos
for file in IMG-*; do
    IFS=-. read -r _ day month year _ <<< "$file"
    mv "$file" "$year-$month-$day.txt"
done
