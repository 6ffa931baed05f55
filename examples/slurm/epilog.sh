#!/bin/sh
# EpilogSlurmctld: releases a job, however it ended. If this fails, `tributary place slurm` releases it.
# Slurm sets only SLURM_* variables, so the file sets all others.
export PATH=/usr/local/bin:/usr/bin:/bin
tributary place slurm epilog --controller 127.0.0.1:9641 >> /var/log/slurm/tributary.log 2>&1
