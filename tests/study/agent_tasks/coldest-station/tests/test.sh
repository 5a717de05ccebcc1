#!/bin/bash
if [ "$(head -n 1 answer.txt)" = "station-32" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
