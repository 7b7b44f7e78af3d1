#!/usr/bin/env bash
# The source's run, from its config and a schedule:  CPU=14 bash run.sh [--dry-run] [--KEY VALUE ...]
#
#   CPU                      CPU activation budget of the schedule in GiB: 8, 14 or 15 (the source's default)
#   SCHEDULE                 another schedule file instead
#   RUN_STAMP                names the run's output and its spill directory
#   NVME_OFFLOAD_ROOT        where spill directories are made
#   NVME_PREFETCH_DISTANCE   boundaries read ahead; the source's default is 0
#
# --dry-run needs nothing but model/config.json: it resolves the config, checks the schedule against the caps, and prints
# the step time, the disk space and the bytes written to the drive a day. A run needs the weights in model/, the rows,
# and a GPU of 80 GB; this version refuses it, naming what it does not have yet.
set -eu
cd "$(dirname "$0")"
cpu=${CPU:-15}
stamp=${RUN_STAMP:-$(date +%Y%m%d_%H%M%S)}
exec "${LAZYTRAIN:-lazytrain}" train qwen3_6_27b_metamathqa_b72_lazy_peak70_nvme.yaml \
    --output_dir "output/$stamp" \
    --memory.plan "${SCHEDULE:-schedules/qwen3_6_27b_metamathqa_b72_lazy_peak70_nvme_cpu${cpu}_pcie_nvme_pool.json}" \
    --memory.lazy_nvme_offload_dir "${NVME_OFFLOAD_ROOT:-nvme_offload}/$stamp" \
    --memory.lazy_nvme_prefetch_distance "${NVME_PREFETCH_DISTANCE:-0}" \
    "$@"
