#!/bin/bash
if [ "$(cat whoami.txt)" = "nobody 5833" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
