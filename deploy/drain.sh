#!/bin/sh
# deploy/drain.sh: drains the worker processes of this host or container, and waits for their end.
# They lease nothing more and store the replies that are on their way. To be called before the host
# ends: as a preStop hook, or by deploy/spot-notice.sh.
set -eu
workers='-m harness[.]sweep[.]worker_process'
while pkill -TERM -f -- "$workers"; do sleep 1; done # of those, too, that are started meanwhile
