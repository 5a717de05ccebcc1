#!/bin/bash
if [ "$(ls /app/photos | tr "\n" " ")" = "2019-05-07.txt 2021-11-30.txt 2024-02-29.txt " ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
