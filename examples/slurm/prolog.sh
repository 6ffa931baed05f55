#!/bin/sh
# PrologSlurmctld: has the switches aggregate for a job before it starts. If this fails, Slurm requeues
# the job. Slurm sets only SLURM_* variables, so the file sets all others.
export PATH=/usr/local/bin:/usr/bin:/bin
tributary place slurm prolog --controller 127.0.0.1:9641 >> /var/log/slurm/tributary.log 2>&1
