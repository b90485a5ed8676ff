#!/bin/bash
# vm: --icount
#
# Three devices of weights 40, 20 and 10 on one disk, 33 and 100 jobs on each: all
# read, all write, and two read while the third one writes. The threshold is the
# disk's depth, then automatic.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

WINDOW=2
DEPTH=4

# load N READWRITE-OF-THE-THIRD READWRITE-OF-THE-OTHERS DEVICE DEVICE DEVICE
load() {
	start_load "$4" "$3" "$1" -- "$5" "$3" "$1" -- "$6" "$2" "$1"
}

# row NAME N READWRITE-OF-THE-THIRD READWRITE-OF-THE-OTHERS
row() {
	local text n=$2 third=$3 others=$4 all s i bare throttle
	local want=(57.14 28.57 14.29) weight=(40 20 10)

	load "$n" "$third" "$others" "$disk" "$disk" "$disk"
	settle $DEPTH
	measure $WINDOW "$disk"
	stop_load
	bare=$iops

	for throttle in $DEPTH 0; do
		text="$2 jobs each, $1, $(threshold "$throttle")"
		make_ioband "$throttle" "${weight[@]}"
		load "$n" "$third" "$others" "${devices[@]}"
		settle "$throttle"
		measure $WINDOW "${devices[@]}"
		stop_load
		remove_devices

		all=$((ios[0] + ios[1] + ios[2]))
		s=()
		for i in 0 1 2; do
			s+=("$(calc "100 * ${ios[i]} / $all")")
		done
		figure "$text" "share_40_percent=${s[0]}" "share_20_percent=${s[1]}" \
			"share_10_percent=${s[2]}" "iops=$iops" "bare_iops=$bare" \
			"sum_percent=$(calc "100 * $iops / $bare")"
		for i in 0 1 2; do
			check "$text: share of weight ${weight[i]} within 0.5 pp of ${want[i]} %" \
				"s >= w - 0.5 && s <= w + 0.5" "s=${s[i]}" "w=${want[i]}"
		done
		check "$text: at least 98.5 % of no control" "s >= 98.5" \
			"s=$(calc "100 * $iops / $bare")"
	done
}

make_disk $DEPTH 1000000
for n in 33 100; do
	row "all read" "$n" randread randread
	row "all write" "$n" randwrite randwrite
	row "the third one writes" "$n" randwrite randread
done
remove_disk

figures_done
