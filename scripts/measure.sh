#!/usr/bin/env bash
# Runs the commands behind docs/evaluation and writes their tables into its pages; --help has the options.
exec python3 "$(dirname "$0")/measure.py" "$@"
