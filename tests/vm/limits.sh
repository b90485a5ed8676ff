#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# vm: --icount
#
# Limits in bytes and I/Os a second, of a group and of its ancestors.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh
# shellcheck source=tests/lib/groups.sh
. ../lib/groups.sh

# A disk that is faster than any limit here.
fast_disk() { nb nullb0 1024 irqmode=2 completion_nsec=100000 hw_queue_depth=32; }

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
t 600 "rbps=51200, 4 KiB"	one 20 bytes 51200 randread 4k rbps=51200
t 600 "wbps=1048576, 4 KiB"	one 10 bytes 1048576 randwrite 4k wbps=1048576
t 600 "wbps=10485760, 64 KiB"	one 4 bytes 10485760 randwrite 64k wbps=10485760
t 600 "rbps=104857600, 1 MiB"	one 2 bytes 104857600 randread 1m rbps=104857600
t 600 "riops=100"		one 10 ios 100 randread 4k riops=100
t 600 "wiops=500, 64 KiB"	one 4 ios 500 randwrite 64k wiops=500
t 600 "rbps tighter than riops"	one 8 bytes 409600 randread 4k rbps=409600 riops=1000
t 600 "riops tighter than rbps"	one 8 ios 50 randread 4k rbps=409600 riops=50
t 600 "a huge riops changes nothing" one 8 bytes 1048576 randread 64k rbps=1048576 riops=1000000
t 600 "a read limit doesn't slow writes" one 2 ios 500 randwrite 4k riops=1 wiops=500

# tree LINE_OF_GROUPS UID:WANTED_BYTES_A_SECOND...: a reader in each of these; 0 for
# one without a limit, which must get more than 20 MB/s
tree() {
	local uid ids=() i=0 wanted
	fast_disk
	# shellcheck disable=SC2086
	ioband a /dev/nullb0 d 32 0 user weight 0 $1
	shift
	for uid; do
		load "uid:${uid%:*}" --rw=read --bs=4k
		ids+=("${uid%:*}")
	done
	sleep 1
	window 20 bytes "${ids[@]}"
	stop_loads
	for uid; do
		wanted=${uid#*:}
		if ((wanted)); then
			want_near "reader in ${uid%:*}" $((GOT[i] / 20)) "$wanted" 1
		else
			want_true "$((GOT[i] / 20 > 20000000))" "the unlimited reader got ${GOT[i]} in 20 s"
		fi
		i=$((i + 1))
	done
}
TREE="1003:100:parent=1002 1002:100:parent=1001"
t 600 "an ancestor's limit, reader at the bottom"	tree "1001:100:rbps=204800 $TREE" 1003:204800
t 600 "an ancestor's limit, reader in the middle"	tree "1001:100:rbps=204800 $TREE" 1002:204800
t 600 "limits below an unlimited one, four readers"	tree \
	"1001:100 1002:100:parent=1001:rbps=102400 1003:100:parent=1002:rbps=51200 1004:100:rbps=51200" \
	1001:0 1002:51200 1003:51200 1004:51200
t 600 "limits at each level, four readers"		tree \
	"1001:100:rbps=204800 1002:100:parent=1001:rbps=102400 1003:100:parent=1002:rbps=51200 1004:100:rbps=51200" \
	1001:102400 1002:51200 1003:51200 1004:51200
t 600 "children 2:1 below 6 MiB/s get 4 and 2"		tree \
	"1001:100:rbps=6291456 1002:200:parent=1001 1003:100:parent=1001" 1002:4194304 1003:2097152

cgroup_tree() {
	mkdir -p /sys/fs/cgroup/p/x
	fast_disk
	ioband a /dev/nullb0 d 32 0 cgroup weight 0 /p:100:rbps=204800 /p/x:100:rbps=51200
	load cgroup:/p/x --rw=read
	load cgroup:/p --rw=read 2>/dev/null
	sleep 1
	window 20 bytes /p/x
	stop_loads
	want_near "/p/x" $((GOT[0] / 20)) 51200 1
	sleep 0.5
	rmdir /sys/fs/cgroup/p/x /sys/fs/cgroup/p
}
t 600 "limits in a tree of cgroups"	cgroup_tree

# since MARK: milliseconds, in the machine's own time
now_ms() { local s; read -r s _ </proc/uptime; echo $((10#${s%.*}${s#*.} * 10)); }

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
t 600 "no limit frees what is held"		raise_frees max 3000 3300

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
t 600 "I/O larger than the bucket passes"	larger_than_bucket

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
t 600 "requests are counted, not I/Os: 256 of 4 KiB"	pieces dd_write /dev/mapper/a 4k 256

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
t 600 "discards have no bytes"	discards

metadata() {
	local start ms pid
	nb nullb0 512 memory_backed=1
	ioband a /dev/nullb0 d 32 0
	mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/a
	mkdir -p /mnt/a
	mount /dev/mapper/a /mnt/a
	msg a limit default wbps=1048576
	dd if=/dev/zero of=/mnt/a/foo bs=8M count=1 conv=fdatasync status=none &
	pid=$!
	sleep 4
	start=$(now_ms)
	mkdir /mnt/a/x
	touch /mnt/a/x/1
	sync /mnt/a/x
	ms=$(($(now_ms) - start))
	want_true "$((ms <= 2000))" "mkdir, touch and sync took $ms ms behind a limited writer"
	msg a limit default wbps=max
	wait "$pid"
	umount /mnt/a
}
t 600 "metadata isn't held behind data"	metadata

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
t 600 "suspend doesn't wait for a limit"	suspend_at_once

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
t 600 "huge limits"	huge

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
	sleep 0.2
	want_true "$(($(in_flight /dev/mapper/a) <= 8))" "held I/O is left"
	stop_loads
}
t 600 "the two hundredth change works too"	changes

done_testing
