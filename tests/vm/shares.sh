#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# vm: --icount
#
# Shares, in deterministic time: what the weights promise is what comes out.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh

# A disk 4 deep that takes 1 ms for each.
setup() {	# WEIGHT_A WEIGHT_B
	nb nullb0 256 irqmode=2 completion_nsec=1000000 hw_queue_depth=4
	local half=$(($(sectors /dev/nullb0) / 2))
	linear part0 /dev/nullb0 0 "$half"
	linear part1 /dev/nullb0 "$half" "$half"
	ioband a /dev/mapper/part0 d 4 0 none weight 0 ":$1"
	ioband b /dev/mapper/part1 d 0 0 none weight 0 ":$2"
}

# start RW_A RW_B: 8 jobs each, until stop
start() {
	local job=(--direct=1 --ioengine=psync --thread --numjobs=8 --bs=4k --time_based --runtime=600)
	start_fio load "${job[@]}" --filename=/dev/mapper/a --rw="$1" \
		--name=b "${job[@]}" --filename=/dev/mapper/b --rw="$2"
	while (($(io_stat b reads) + $(io_stat b writes) < 100)); do sleep 0.1; done
}

stop() { end_fio "$FIO" load || why "fio failed"; }

# counts: I/Os of a and of b so far
counts() {
	dmsetup status --target ioband | awk '{ n[$1] = $7 + $10 } END { print n["a:"], n["b:"] }'
}

# share SECONDS: REPLY becomes the share of a in them, in 1/10 %, TOTAL the I/Os
share() {
	local a0 b0 a1 b1
	read -r a0 b0 < <(counts)
	sleep "$1"
	read -r a1 b1 < <(counts)
	TOTAL=$((a1 - a0 + b1 - b0))
	REPLY=$(((a1 - a0) * 1000 / TOTAL))
}

# shares WEIGHT_A WEIGHT_B RW_A RW_B LEAST MOST: of a, in 1/10 %
shares() {
	setup "$1" "$2"
	start "$3" "$4"
	share 3
	stop
	want_true "$((REPLY >= $5 && REPLY <= $6))" "the share is $REPLY/10 %, wanted $5 to $6"
	# 4000 a second is what the disk can do, 3 s and a bit.
	want_true "$((TOTAL >= 11500))" "only $TOTAL I/Os in 3 s"
}

t 600 "200:100, readers"		shares 200 100 randread randread 662 672
t 600 "200:100, readers and writers"	shares 200 100 randread randwrite 662 672
t 600 "100:200, writers and readers"	shares 100 200 randwrite randread 328 338
t 600 "equal"				shares 100 100 randread randread 495 505
t 600 "900:100"				shares 900 100 randread randread 895 905

# A new weight holds in each window of 100 ms from 100 ms after the message on.
change_weight() {
	local w i
	setup 200 100
	start randread randread
	share 0.5
	want_true "$((REPLY >= 657 && REPLY <= 677))" "before: $REPLY"
	for w in 50 800; do
		msg a weight "$w"
		sleep 0.1
		for ((i = 0; i < 3; i++)); do
			share 0.1
			# About 400 I/Os, so a few make a percent.
			local wanted=$((w * 1000 / (w + 100)))
			want_true "$((REPLY >= wanted - 20 && REPLY <= wanted + 20))" "weight $w, window $i: $REPLY, wanted $wanted"
		done
	done
	stop
}
t 600 "a new weight holds after 100 ms" change_weight

done_testing
