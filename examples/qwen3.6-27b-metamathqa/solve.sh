#!/usr/bin/env bash
# The source's solver commands, for its three schedules: CPU budgets of 8, 14 and 15 GiB. Every option is written out as
# the source writes it; most of them are defaults. Needs nothing but model/config.json.
set -eu
cd "$(dirname "$0")"
lazytrain=${LAZYTRAIN:-lazytrain}
for cpu in 8 14 15; do
    "$lazytrain" plan \
        --model model \
        --output "schedules/qwen3_6_27b_metamathqa_b72_lazy_peak70_nvme_cpu${cpu}_pcie_nvme_pool.json" \
        --batch-size 72 \
        --max-seq-len 1024 \
        --dtype-bytes 2 \
        --peak-cap-gb 70 \
        --baseline-peak-gb 60.4 \
        --baseline-checkpoint-interval 4 \
        --max-segment-layers 4 \
        --cpu-activation-budget-gb "$cpu" \
        --enable-nvme-offload \
        --nvme-activation-budget-gb 32 \
        --nvme-transfer-mode gds \
        --layer-recompute-ms 20 \
        --enable-overlap-aware-offload \
        --enable-overlap-aware-nvme \
        --activation-comm-capacity-fraction 1.0 \
        --activation-comm-window-ms-scale 5.0 \
        --nvme-comm-capacity-fraction 1.0 \
        --nvme-comm-window-ms-scale 5.0 \
        --activation-h2d-bandwidth-gbps 12 \
        --activation-d2h-bandwidth-gbps 12 \
        --nvme-read-bandwidth-gbps 2.83 \
        --nvme-write-bandwidth-gbps 3.35 \
        --include-param-grad-pcie \
        --optimizer-state-mode hybrid_8bit_adam \
        --optimizer-max-8bit-fraction 0.02 \
        --optimizer-alpha-step-sec 119.18 \
        --optimizer-fast-grad-clip-saving-sec 18 \
        --optimizer-full-8bit-extra-step-sec 123 \
        --hidden-nvme-offload-tiebreak-ms 0.001 \
        --checkpoint-penalty 1e-5 \
        --time-limit-sec 60 \
        --trust-remote-code | grep -E '^(Status|Objective|GPU check|CPU off|NVMe off|Recomputed)'
done
