#!/bin/bash
if cmp -s keys.txt /tests/keys.txt; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
