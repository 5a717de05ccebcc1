#!/bin/sh
# deploy/wave.sh STUDY [OPTION…]: runs the first wave of a study that is not closed, with options of
# `dosimeter sweep`, and verifies the store. STUDY is the address of its store, or its folder. Run it
# again to go on; if every wave is closed, it does nothing. Exit codes are those of the commands.
set -eu
study=$1
shift
wave=$(dosimeter wave list --study "$study" --json |
    jq 'first(.[] | select(.state != "closed") | .wave) // empty')
if [ -z "$wave" ]; then
    echo "wave: every wave is closed"
    exit 0
fi
dosimeter sweep --study "$study" --wave "$wave" "$@"
dosimeter verify --study "$study"
