#!/bin/bash
# vm: --icount
#
# Two devices of weights 200 and 100 on one disk, n readers (or writers) each: the
# shares, and the sum against the same load without control. The threshold is the
# disk's depth, then automatic.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

# row DISK DEPTH WINDOW RW-OF-200 RW-OF-100 N
row() {
	local name=$1 depth=$2 window=$3 rw1=$4 rw2=$5 n=$6 bare share sum text throttle

	start_load "$disk" "$rw1" "$n" -- "$disk" "$rw2" "$n"
	settle "$depth"
	measure "$window" "$disk"
	stop_load
	bare=$iops

	for throttle in "$depth" 0; do
		text="$name, $n $rw1 against $n $rw2, $(threshold "$throttle")"
		make_ioband "$throttle" 200 100
		start_load "${devices[0]}" "$rw1" "$n" -- "${devices[1]}" "$rw2" "$n"
		settle "$throttle"
		measure "$window" "${devices[@]}"
		stop_load
		remove_devices

		share_and_sum "$bare"
		figure "$text" "ios_200=${ios[0]}" "ios_100=${ios[1]}" "share_percent=$share" \
			"iops=$iops" "bare_iops=$bare" "sum_percent=$sum"
		# Fewer jobs than the disk takes at a time don't contend.
		if ((2 * n > depth)); then
			check "$text: share within 0.5 pp of 66.67 %" \
				"s >= 66.67 - 0.5 && s <= 66.67 + 0.5" "s=$share"
		fi
		check "$text: at least 98.5 % of no control" "s >= 98.5" "s=$sum"
	done
}

for d in "4 1000000 2" "1 4000000 4"; do
	read -r depth ns window <<<"$d"
	make_disk "$depth" "$ns"
	for n in 1 4 8 16; do
		row "disk $depth deep" "$depth" "$window" randread randread "$n"
	done
	for n in 1 4 8 16; do
		row "disk $depth deep" "$depth" "$window" randread randwrite "$n"
	done
	row "disk $depth deep" "$depth" "$window" randwrite randread 16
	remove_disk
done

figures_done
