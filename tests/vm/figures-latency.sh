#!/bin/bash
# vm: --icount
#
# One synchronous reader of a high weight beside many: how long its I/O takes, what
# it gets, and what is left to the others. The threshold is the disk's depth, then
# automatic.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

#--- A reader beside deep queues of large I/O --------------------------------------

# The others run for 6 s and the reader for 4 s of them.
OTHERS_S=6
READER_S=4

report=/tmp/fio.json

# pair READER-DEVICE OTHERS-DEVICE: sets $p99 (ms) and $reader, $others (I/Os a second).
# Without OTHERS-DEVICE the reader is alone.
pair() {
	local args=(--direct=1 --ioengine=libaio --norandommap --randrepeat=1 --time_based
		--group_reporting "${fio_latency[@]}" "--output=$report"
		--name=reader "--filename=/dev/$1" --rw=randread --bs=4k --iodepth=1
		"--runtime=$READER_S")

	if (($# > 1)); then
		args+=(--startdelay=1 --name=others "--filename=/dev/$2"
			--new_group --rw=randread --bs=64k --iodepth=128 --numjobs=8
			--startdelay=0 "--runtime=$OTHERS_S")
	fi
	fio "${args[@]}" || trouble "fio failed"
	read_latency "$report" reader
	read -r reader others < <(jq -r '
		[["reader", "others"][] as $job | [.jobs[] | select(.jobname == $job) | .read.iops] | add // 0] |
		map(. * 1000 | round / 1000) | join(" ")' $report)
	[[ $others ]] || trouble "fio printed no figures"
}

show() {
	figure "$1" "p50_ms=$p50" "p99_ms=$p99" "p999_ms=$p999" "reader_iops=$reader" \
		"others_iops=$others"
}

make_disk 4 1000000

pair "$disk"
show "4 KiB reader alone"
alone=$p99

pair "$disk" "$disk"
show "4 KiB reader beside 8 jobs of 64 KiB at depth 128, no control"
bare_others=$others

for throttle in 4 0; do
	make_ioband "$throttle" 1000 100
	pair "${devices[@]}"
	text=$(threshold "$throttle")
	show "4 KiB reader of weight 1000 beside 8 jobs of 64 KiB at depth 128, $text"
	remove_devices

	figure "of that" "p99_factor=$(calc "$p99 / $alone" 3)" \
		"others_percent=$(calc "100 * $others / $bare_others")"
	check "$text: P99 of the reader at most 1.2 times its P99 alone" "p <= 1.2 * a" \
		"p=$p99" "a=$alone"
	check "$text: the others keep at least 90 % of what they do under no control" \
		"o >= 0.9 * b" "o=$others" "b=$bare_others"
done
remove_disk

#--- A reader beside many, on a disk that does one thing at a time -------------------

make_disk 1 4000000

start_load "$disk" randread 1 -- "$disk" randread 16
sleep 0.5
measure 4 "$disk"
stop_load
bare=$iops

for throttle in 1 0; do
	text="one reader of weight 200 against 16 of weight 100, disk 1 deep, $(threshold "$throttle")"
	make_ioband "$throttle" 200 100
	start_load "${devices[0]}" randread 1 -- "${devices[1]}" randread 16
	settle "$throttle"
	measure 4 "${devices[@]}"
	stop_load
	remove_devices
	share_and_sum "$bare"
	figure "$text" "share_percent=$share" "iops=$iops" "bare_iops=$bare" "sum_percent=$sum"
	check "$text: at least 65 %" "s >= 65" "s=$share"
	check "$text: costs at most 2 % of throughput" "s >= 98" "s=$sum"
done
remove_disk

figures_done
