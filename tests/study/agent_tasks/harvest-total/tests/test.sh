#!/bin/bash
if [ "$(cat /app/total.txt)" = "137972" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
