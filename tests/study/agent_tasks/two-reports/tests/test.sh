#!/bin/bash
score=0
[ "$(cat /app/reports/lines)" = 120 ] && score=$((score + 50))
[ "$(cat /app/reports/errors)" = 24 ] && score=$((score + 50))
printf '{"reward": %d.%02d, "points": %d}' $((score / 100)) $((score % 100)) $score > /logs/verifier/reward.json
