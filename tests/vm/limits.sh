#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# vm: --icount
# takes: 100
#
# Limits in bytes and I/Os a second, of a group and of its ancestors: what they do.
# throttle.sh looks at their exactness.
# shellcheck disable=SC2119	# fast_disk without parameters of the disk's
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh
# shellcheck source=tests/lib/groups.sh
. ../lib/groups.sh

# one SECONDS WHAT WANTED RW SIZE LIMIT...: a single group under load
one() {
	fast_disk
	ioband a /dev/nullb0 d 32 0 user weight 0 :100 1000:100
	# shellcheck disable=SC2086
	msg a limit 1000 "${@:6}"
	load uid:1000 --rw="$4" --bs="$5" --ioengine=libaio --iodepth=8 --iodepth_batch_complete_max=8
	sleep 2
	window "$1" "$2" 1000
	stop_loads
	want_near "$2 in $1 s" "${GOT[0]}" $(($3 * $1)) 1
}
t 600 "rbps tighter than riops"	one 8 bytes 409600 randread 4k rbps=409600 riops=1000
full t 600 "riops tighter than rbps"	one 8 ios 50 randread 4k rbps=409600 riops=50
full t 600 "a read limit doesn't slow writes" one 2 ios 500 randwrite 4k riops=1 wiops=500

# tree LINE_OF_GROUPS UID:WANTED_BYTES_A_SECOND...: a reader in each of these
tree() {
	local uid ids=() i=0
	fast_disk
	# shellcheck disable=SC2086
	ioband a /dev/nullb0 d 32 0 user weight 0 $1
	shift
	for uid; do
		load "uid:${uid%:*}" --rw=read --bs=4k
		ids+=("${uid%:*}")
	done
	sleep 1
	window 10 bytes "${ids[@]}"
	stop_loads
	for uid; do
		want_near "reader in ${uid%:*}" $((GOT[i] / 10)) "${uid#*:}" 1
		i=$((i + 1))
	done
}
full t 600 "an ancestor's limit, reader at the bottom"	tree \
	"1001:100:rbps=204800 1003:100:parent=1002 1002:100:parent=1001" 1003:204800
t 600 "children 2:1 below 6 MiB/s get 4 and 2"		tree \
	"1001:100:rbps=6291456 1002:200:parent=1001 1003:100:parent=1001" 1002:4194304 1003:2097152

raise_frees() {	# RAISE_TO LEAST_MS MOST_MS
	local start ms
	fast_disk
	ioband a /dev/nullb0 d 32 0
	msg a limit default rbps=1024
	start=$(now_ms)
	dd_read /dev/mapper/a 64k 1 &
	sleep 3
	msg a limit default "rbps=$1"
	wait $!
	ms=$(($(now_ms) - start))
	want_true "$((ms >= $2 && ms <= $3))" "the read took $ms ms"
	# No credit is left over from the time of the tiny limit.
	msg a limit default rbps=1048576
	start=$(now_ms)
	dd_read /dev/mapper/a 64k 128
	ms=$(($(now_ms) - start))
	want_true "$((ms >= 6800 && ms <= 8400))" "8 MiB at 1 MiB/s took $ms ms"
}
t 600 "a higher limit frees what is held"	raise_frees 67108864 3000 3300
full t 600 "no limit frees what is held"		raise_frees max 3000 3300

larger_than_bucket() {
	local start ms
	fast_disk
	ioband a /dev/nullb0 d 32 0
	msg a limit default wbps=262144
	start=$(now_ms)
	dd_write /dev/mapper/a 1M 3
	ms=$(($(now_ms) - start))
	want_true "$((ms >= 8000 && ms <= 13000))" "3 MiB at 256 KiB/s took $ms ms"
}
full t 600 "I/O larger than the bucket passes"	larger_than_bucket

pieces() {	# COMMAND...: 1 MiB in pieces of 4 KiB at 256 I/O/s
	local start ms
	nb nullb0 256 max_sectors=8
	ioband a /dev/nullb0 d 32 0
	msg a limit default wiops=256
	start=$(now_ms)
	"$@"
	ms=$(($(now_ms) - start))
	want_true "$((ms >= 900 && ms <= 1200))" "256 requests at 256 a second took $ms ms"
}
t 600 "requests are counted, not I/Os: one of 1 MiB"	pieces dd_write /dev/mapper/a 1M 1
full t 600 "requests are counted, not I/Os: 256 of 4 KiB"	pieces dd_write /dev/mapper/a 4k 256

discards() {
	local start ms
	nb nullb0 1024 discard=1 memory_backed=1
	ioband a /dev/nullb0 d 32 0
	msg a limit default wbps=1048576
	start=$(now_ms)
	blkdiscard /dev/mapper/a
	ms=$(($(now_ms) - start))
	want_true "$((ms < 3000))" "a discard of 1 GiB took $ms ms at 1 MiB/s"
	start=$(now_ms)
	dd_write /dev/mapper/a 1M 8
	ms=$(($(now_ms) - start))
	want_true "$((ms >= 6500 && ms <= 8500))" "8 MiB after it took $ms ms"
}
full t 600 "discards have no bytes"	discards

suspend_at_once() {
	local start ms pid how
	nb nullb0 256 memory_backed=1
	ioband a /dev/nullb0 d 32 0
	msg a limit default wbps=65536
	for how in "" "--noflush --nolockfs"; do
		start_fio v --rw=randwrite --bs=64k --size=4m --iodepth=32 --verify=crc32c --filename=/dev/mapper/a
		pid=$FIO
		sleep 2
		start=$(now_ms)
		# shellcheck disable=SC2086
		dmsetup suspend $how a
		ms=$(($(now_ms) - start))
		want_true "$((ms < 2000))" "suspend $how took $ms ms"
		dmsetup resume a
		msg a limit default wbps=max
		wait_fio "$pid" v || why "fio failed after suspend $how"
		msg a limit default wbps=65536
	done
}
full t 600 "suspend doesn't wait for a limit"	suspend_at_once

huge() {
	local v k
	nb nullb0 64 memory_backed=1
	ioband a /dev/nullb0 d 32 0
	for v in 4294967295 4294967296 4294967297 9223372036854775807; do
		for k in rbps wbps riops wiops; do
			msg a limit default "$k=$v" || why "$k=$v refused"
			[[ $(dmsetup table a) == *":$k=$v"* ]] || why "$k=$v reads back as $(dmsetup table a)"
			within 20 dd_write /dev/mapper/a 1M 16 || why "writes hang at $k=$v"
			within 20 dd_read /dev/mapper/a 1M 16 || why "reads hang at $k=$v"
			msg a limit default "$k=max"
		done
	done
}
full t 600 "huge limits"	huge

changes() {
	local i
	nb nullb0 256
	ioband a /dev/nullb0 d 32 0
	load nobody --rw=randwrite --ioengine=libaio --iodepth=8
	for ((i = 1; i <= $(times 200); i++)); do
		msg a limit default wbps=$((i * 4096)) "riops=$i" || why "change $i"
	done
	[[ $(dmsetup table a) == *":wbps=$(($(times 200) * 4096)):riops=$(times 200)" ]] || why "$(dmsetup table a)"
	msg a limit default wbps=max
	stop_loads
	[[ $(msg a stats default) == *" held=0 "* ]] || why "held I/O is left"
}
full t 600 "the two hundredth change works too"	changes

done_testing
