#!/bin/sh
# deploy/drain.sh: drains the worker processes of this host or container, and waits for their end.
# They lease nothing more and store the replies that are on their way. To be called before the host
# ends: as a preStop hook, or by deploy/spot-notice.sh.
set -eu
workers='-m harness[.]sweep[.]worker_process'
pkill -TERM -f -- "$workers" || exit 0 # there are none
while pgrep -f -- "$workers" >/dev/null; do sleep 1; done
