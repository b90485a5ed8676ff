#!/bin/bash
# vm: --icount
#
# The automatic threshold, nothing set: readers on disks that do 1, 4, 32 and 128 I/Os
# at a time, two devices of weights 200 and 100. The shares, the sum against the same
# load without control, and the depth that was found.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

# row DEPTH NS N WINDOW
row() {
	local depth=$1 ns=$2 n=$3 window=$4 bare share sum found text
	text="disk $depth deep, $n readers each"
	make_disk "$depth" "$ns"

	start_load "$disk" randread "$n" -- "$disk" randread "$n"
	sleep 0.3
	measure "$window" "$disk"
	stop_load
	bare=$iops

	make_ioband 0 200 100
	start_load "${devices[0]}" randread "$n" -- "${devices[1]}" randread "$n"
	# The time within which the depth is to be found.
	sleep 1
	measure "$window" "${devices[@]}"
	found=$(dmsetup message share1 0 stats | sed -n 's/.* io_throttle=\([0-9]*\),auto .*/\1/p')
	stop_load
	remove_devices
	remove_disk

	share=$(calc "100 * ${ios[0]} / (${ios[0]} + ${ios[1]})")
	sum=$(calc "100 * $iops / $bare")
	figure "$text" "share_percent=$share" "iops=$iops" "bare_iops=$bare" "sum_percent=$sum" "depth=$found"
	# Fewer jobs than the disk takes at a time don't contend.
	if ((2 * n > depth)); then
		check "$text: share within 1 pp of 66.67 %" "s >= 65.67 && s <= 67.67" "s=$share"
	fi
	check "$text: at least 99 % of no control" "s >= 99" "s=$sum"
}

row 1 4000000 1 4
row 1 4000000 16 4
row 4 1000000 1 2
row 4 1000000 4 2
row 4 1000000 16 2
row 32 2000000 16 1
row 32 2000000 64 1
row 128 8000000 128 2

figures_done
