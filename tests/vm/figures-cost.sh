#!/bin/bash
# vm: --icount
#
# What the target costs where nobody contends: one device, on a disk that is so fast
# that the processor is what limits, against a linear target.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

# run: sets $iops for ${devices[0]}.
run() {
	start_load "${devices[0]}" randread 1 --ioengine=libaio --iodepth=32
	sleep 0.1
	measure 0.7 "${devices[0]}"
	stop_load
	remove_devices
}

make_disk 128 10000

make_linear
run
linear=$iops

# The threshold set, and found.
for throttle in 128 0; do
	make_ioband $throttle 100
	run
	percent=$(calc "100 * $iops / $linear")
	figure "uncontended, depth 32, io_throttle $throttle" "iops=$iops" "linear_iops=$linear" \
		"percent=$percent" "ns_more=$(calc "1e9 / $iops - 1e9 / $linear" 0)"
	check "io_throttle $throttle: at least 98 % of a linear target's I/Os a second" \
		"p >= 98" "p=$percent"
done
remove_disk

figures_done
