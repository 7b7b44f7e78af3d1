#!/usr/bin/env bash
# Resolves the config, reads the schedule and says whether it fits and how long a step takes; trains nothing.
# Without --dry-run it needs the model's weights in model/ and a GPU of 80 GB.
set -eu
cd "$(dirname "$0")"
exec "${LAZYTRAIN:-lazytrain}" train qwen3_6_27b_metamathqa_b72_lazy_peak70_nvme.yaml --dry-run "$@"
