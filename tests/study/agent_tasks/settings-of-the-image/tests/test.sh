#!/bin/bash
if [ "$TIDE_TABLE" = /srv/tides.dat ] && [ "$(cat highest.txt)" = 9412 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
