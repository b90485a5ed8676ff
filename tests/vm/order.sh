#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# vm: --icount
# not brief
#
# The order of I/O inside one group: by I/O priority, reads and writes apart, and
# nobody waits for ever. The disk does 4000 I/Os a second, four at a time.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh
# shellcheck source=tests/lib/groups.sh
. ../lib/groups.sh

# beside CLASS LEVEL RW CLASS LEVEL RW LEAST MOST: what one job of the first kind gets
# a second beside 16 of the second kind. It sends an I/O after the other.
beside() {
	local iops
	# shellcheck disable=SC2119	# without a parameter of the disk's
	disk4
	ioband a /dev/nullb0 d 4 0 none weight 0
	load nobody --rw="$6" --numjobs=16 --prioclass="$4" --prio="$5"
	sleep 0.5
	start_fio one --filename=/dev/mapper/a --ioengine=psync --rw="$3" --bs=4k --norandommap \
		--prioclass="$1" --prio="$2" --time_based --runtime=4 --output-format=json
	wait_fio "$FIO" one || why "fio failed"
	stop_loads
	iops=$(jq '[.jobs[0].read.iops, .jobs[0].write.iops] | add | round' "$TMP/fio.one")
	want_true "$((iops >= $7 && iops <= $8))" "got $iops I/Os a second, wanted $7 to $8"
}

# The next free slot is its own: it waits 0.25 ms for that, or 1 ms if the four free
# up at once just before it comes, and 1 ms for the disk: 500 to 800 a second. In its
# turn it would wait for 4 ms: 200 to 250.
while read -r what rest; do
	# shellcheck disable=SC2086
	t 120 "${what//_/ }" beside $rest
done <<'ROWS'
BE_0_reads,_others_BE_7_write		2 0 randread 2 7 randwrite 490 810
BE_0_reads,_others_BE_7_read		2 0 randread 2 7 randread 490 810
BE_0_writes,_others_BE_7_read		2 0 randwrite 2 7 randread 490 810
RT_7_reads,_others_BE_0_read		1 7 randread 2 0 randread 490 810
all_the_same_read			2 4 randread 2 4 randread 195 260
BE_7_reads,_others_BE_0_read		2 7 randread 2 0 randread 1 3
IDLE_reads,_others_BE_7_read		3 0 randread 2 7 randread 1 3
IDLE_reads,_others_BE_7_write		3 0 randread 2 7 randwrite 1 3
ROWS

done_testing
