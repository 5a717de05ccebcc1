#!/bin/bash
python3 /tests/cases.code && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
