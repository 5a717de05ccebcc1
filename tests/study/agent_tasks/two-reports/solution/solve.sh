#!/bin/bash
mkdir -p reports
wc -l < ledger.log > reports/lines
grep -c ERROR ledger.log > reports/errors
