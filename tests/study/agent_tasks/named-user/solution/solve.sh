#!/bin/bash
echo "$(id -un) $((1729 + 4104))" > whoami.txt
