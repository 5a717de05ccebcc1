#!/bin/sh
# deploy/spot-notice.sh: waits for AWS's notice that this spot instance is taken away, which comes two
# minutes before, and drains the workers of this host.
set -eu
metadata=${METADATA:-http://169.254.169.254}/latest
while sleep 5; do
    token=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/api/token") || continue
    if curl -sf -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/spot/instance-action" >/dev/null; then
        exec "$(dirname "$0")/drain.sh"
    fi
done
