#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The data path: data arrive unchanged, every kind of I/O reaches the disk, the
# bounds on what is in flight hold, and what is counted is what was issued.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh

# wobble DEVICE...: change settings ten times a second, until killed
wobble() {
	local n=0 d
	while :; do
		for d; do
			msg "$d" weight $((RANDOM % 1000 + 1)) || why "weight of $d"
		done
		# Of the first device's domain.
		msg "$1" io_throttle $((++n % 2 ? 1 : RANDOM % 64 + 1)) || why "io_throttle"
		sleep 0.1
	done
}

verify_raw() {	# IO_ENGINE
	local more=() half status=0 d
	case $1 in
	pvsync2) more=(--numjobs=2 --offset_increment=8m --size=8m) ;;
	*) more=(--iodepth=32) ;;
	esac
	# Slow enough that something is held on a slow processor, too.
	nb nullb0 256 memory_backed=1 irqmode=2 completion_nsec=1000000 hw_queue_depth=8
	nb nullb1 64 memory_backed=1 "${FAST[@]}"
	half=$(($(sectors /dev/nullb0) / 2))
	linear part0 /dev/nullb0 0 "$half"
	linear part1 /dev/nullb0 "$half" "$half"
	ioband a /dev/mapper/part0 shared 0 0 none weight 0 :200
	ioband b /dev/mapper/part1 shared 0 0 none weight 0 :100
	ioband c /dev/nullb1 alone
	wobble a b c &
	local wobbler=$! jobs=()
	for d in a b c; do
		start_fio "$d" --filename=/dev/mapper/"$d" --ioengine="$1" --rw=randrw \
			--bsrange=512-1m --size=$((QUICK ? 8 : 24))m --verify=crc32c --verify_fatal=1 \
			--verify_backlog=64 --do_verify=1 "${more[@]}"
		jobs+=("$FIO")
	done
	for d in a b c; do
		wait_fio "${jobs[0]}" "$d" || status=1
		jobs=("${jobs[@]:1}")
	done
	kill "$wobbler"
	wait "$wobbler" 2>/dev/null
	want "fio" "$status" 0
	want_true "$(io_stat a writes_held) + $(io_stat b writes_held) > 0" "nothing was held"
	want "part a: in flight" "$(in_flight /dev/mapper/a)" 0
}

# Through a file system, by the page cache, and looked at after a new mount.
verify_fs() {	# TYPE MKFS...
	nb nullb0 400 memory_backed=1 cache_size=8 "${FAST[@]}"
	ioband a /dev/nullb0
	"${@:2}" /dev/mapper/a >/dev/null || why "mkfs failed"
	mkdir -p /mnt/fs
	mount /dev/mapper/a /mnt/fs || why "mount failed"
	wobble a &
	local wobbler=$!
	local job=(--directory=/mnt/fs --direct=0 --ioengine=psync --rw=randwrite --bsrange=512-256k
		--numjobs=2 --size=$((QUICK ? 8 : 24))m --fsync=16 --verify=crc32c --verify_fatal=1)
	run_fio v "${job[@]}" || why "fio failed"
	umount /mnt/fs || why "umount failed"
	mount /dev/mapper/a /mnt/fs || why "second mount failed"
	run_fio v "${job[@]}" --verify_only || why "fio after a new mount failed"
	kill "$wobbler"
	wait "$wobbler" 2>/dev/null
	umount /mnt/fs
	case $1 in
	ext4) e2fsck -fn /dev/mapper/a ;;
	xfs) xfs_repair -n /dev/mapper/a ;;
	esac || why "the file system is damaged"
}

for engine in libaio io_uring pvsync2; do
	t 600 "verify: raw, $engine, 512 B to 1 MiB, three devices in two domains" verify_raw $engine
done
t 600 "verify: ext4" verify_fs ext4 mkfs.ext4 -qF
t 600 "verify: xfs" verify_fs xfs mkfs.xfs -qf

#--- Counting -------------------------------------------------------------------------

# dd, and what the target and the disk must have counted of it.
counting() {
	local op size count max later ios sectors what
	local fields="reads read_sectors writes write_sectors"
	# max: sectors that the disk takes at most; later: KiB it is told to take
	# at most when the device is there already, so that it gets more.
	while read -r op size count max later ios sectors; do
		nb nullb0 64 max_sectors="$max"
		ioband a /dev/nullb0 d 64 0
		[[ $later == - ]] || echo "$later" >/sys/block/nullb0/queue/max_sectors_kb
		"dd_$op" /dev/mapper/a "$size" "$count"
		case $op in
		read) what="$ios $sectors 0 0" ;;
		write) what="0 0 $ios $sectors" ;;
		esac
		# shellcheck disable=SC2086
		want "$op $size x $count: counted" "$(io_stat a $fields)" "$what"
		# shellcheck disable=SC2086
		want "$op $size x $count: the disk counted" "$(disk_stat /dev/nullb0 $fields)" "$what"
		want "$op $size x $count: held" "$(io_stat a reads_held writes_held)" "0 0"
		dmsetup remove a
		nb_del nullb0
	done <<-TABLE
		read	4k	100	512	-	100	800
		write	4k	100	512	-	100	800
		read	512	10	512	-	10	10
		write	256k	4	512	-	4	2048
		read	1M	4	8	-	1024	8192
		write	64k	16	64	-	32	2048
		write	68k	4	64	-	12	544
		read	64k	4	512	4	64	512
		write	68k	4	512	32	12	544
	TABLE
}
t 120 "counted is what was issued, and what the disk sees" counting

held_column() {
	# So slow that eight are in flight on a slow processor, too.
	nb nullb0 64 irqmode=2 completion_nsec=40000000 hw_queue_depth=64
	ioband a /dev/nullb0 d 16 0
	local job=(--filename=/dev/mapper/a --rw=randread --bs=4k --number_ios=100)
	run_fio below "${job[@]}" --iodepth=8 || why "fio failed"
	want "below the threshold: reads, held, sectors" "$(io_stat a reads reads_held read_sectors)" "100 0 800"
	msg a reset
	msg a io_throttle 2
	run_fio above "${job[@]}" --iodepth=8 || why "fio failed"
	local reads reads_held read_sectors
	read -r reads reads_held read_sectors < <(io_stat a reads reads_held read_sectors)
	want_true "$((reads == 100 && read_sectors == 800))" "above it: $reads reads, $read_sectors sectors"
	# All but the first ones find two in flight.
	want_true "$((reads_held >= 90 && reads_held <= 98))" "above it: $reads_held held"
	want "writes" "$(io_stat a writes writes_held write_sectors)" "0 0 0"
}
t 120 "held grows only above io_throttle" held_column

counts_of_two() {
	nb nullb0 64
	ioband a /dev/nullb0 d
	ioband b /dev/nullb0 d
	dd_read /dev/mapper/a 4k 7
	dd_write /dev/mapper/b 8k 5
	want "a" "$(io_stat a reads read_sectors writes write_sectors)" "7 56 0 0"
	want "b" "$(io_stat b reads read_sectors writes write_sectors)" "0 0 5 80"
	msg a reset
	want "b after a reset of a" "$(io_stat b writes)" 5
	want "the domain's name" "$(io_stat b domain)" d
}
t 120 "devices of a domain count for themselves" counts_of_two

#--- Bounds ----------------------------------------------------------------------------

# An I/O that makes several requests may pass the threshold, not the limit.
# "least" is less than the bound where a slow host may not get there. "ms" is what the
# disk takes: more for more in flight, since they have to be sent within that time.
bounds() {
	local io_throttle io_limit size max_sectors ms least bound what most requests n
	while read -r io_throttle io_limit size max_sectors ms least bound; do
		nb nullb0 64 irqmode=2 completion_nsec="${ms}000000" hw_queue_depth=128 max_sectors="$max_sectors"
		linear part0 /dev/nullb0 0 65536
		linear part1 /dev/nullb0 65536 65536
		ioband a /dev/mapper/part0 d "$io_throttle" "$io_limit"
		ioband b /dev/mapper/part1 d
		what="io_throttle $io_throttle, io_limit $io_limit, $size"
		n=$((bound * 50 + 200))
		trace_on
		run_fio load --filename=/dev/mapper/a:/dev/mapper/b --rw=randrw --bs="$size" --iodepth=128 \
			--norandommap --number_ios="$n" || why "$what: fio failed"
		trace_off
		read -r most requests < <(most_in_flight)
		want_true "$((most >= least && most <= bound))" "$what: $most in flight, not $least to $bound"
		want_true "$((requests >= n))" "only $requests requests were seen"
		dmsetup remove a
		dmsetup remove b
		dmsetup remove part0
		dmsetup remove part1
		nb_del nullb0
	done <<-TABLE
		1	0	4k	0	5	1	1
		4	0	4k	0	5	4	4
		0	2	4k	0	5	2	2
		16	16	4k	0	40	16	16
		60	100	4k	0	80	30	60
		6	8	16k	8	10	6	8
	TABLE
}
t 360 "never more in flight than io_throttle and io_limit allow" bounds

#--- Kinds of I/O ------------------------------------------------------------------------

discard() {
	local name
	nb nullb0 256 memory_backed=1 discard=1 "${FAST[@]}"
	ioband a /dev/nullb0
	sysdir /dev/mapper/a
	for name in discard_granularity discard_max_bytes discard_max_hw_bytes; do
		want "$name" "$(<"$REPLY/queue/$name")" "$(</sys/block/nullb0/queue/"$name")"
	done
	want_true "$(($(<"$REPLY/queue/discard_max_bytes") > 0))" "no discard"
	dd if=/dev/urandom of=/dev/mapper/a bs=64k count=4 oflag=direct status=none
	msg a reset
	blkdiscard -f -o 64k -l 64k /dev/mapper/a || why "blkdiscard failed"
	want "counted" "$(io_stat a reads writes write_sectors)" "0 1 0"
	want "the disk's discards" "$(disk_stat /dev/nullb0 discards)" 1
	cmp -s -n 65536 -i 65536:0 /dev/mapper/a /dev/zero || why "not discarded"
	cmp -s -n 65536 /dev/mapper/a /dev/zero && why "more was discarded than asked"
	# All of the disk, while the threshold is as low as can be and others wait.
	msg a io_throttle 1
	blkdiscard -f /dev/mapper/a || why "blkdiscard of all failed"
	run_fio trim --filename=/dev/mapper/a --rw=randtrim --bs=4k --iodepth=16 --number_ios=200 || why "fio trim failed"
}
t 120 "discard" discard

write_zeroes() {
	local disk name
	scsi_debug lbpws=1 lbpws10=1 lbprz=1 delay=0 max_queue=32 || { why "no disk"; return; }
	disk=$REPLY
	ioband a "$disk"
	sysdir /dev/mapper/a
	name=write_zeroes_max_bytes
	want "$name" "$(<"$REPLY/queue/$name")" "$(<"/sys/block/${disk##*/}/queue/$name")"
	want_true "$(($(<"$REPLY/queue/$name") > 0))" "no write zeroes"
	dd if=/dev/urandom of=/dev/mapper/a bs=64k count=2 oflag=direct status=none
	msg a reset
	blkdiscard -f -z -l 64k /dev/mapper/a || why "blkdiscard -z failed"
	want "counted" "$(io_stat a reads writes write_sectors)" "0 1 0"
	cmp -s -n 65536 /dev/mapper/a /dev/zero || why "not zeroed"
	cmp -s -n 65536 -i 65536:0 /dev/mapper/a /dev/zero && why "more was zeroed than asked"
	dmsetup remove a
}
t 120 "write zeroes" write_zeroes

flush() {
	local i n=20
	nb nullb0 64 memory_backed=1 cache_size=8
	ioband a /dev/nullb0 d 1 1
	sysdir /dev/mapper/a
	want "write cache" "$(<"$REPLY/queue/write_cache")" "write back"
	want "FUA" "$(<"$REPLY/queue/fua")" "$(</sys/block/nullb0/queue/fua)"
	for ((i = 0; i < n; i++)); do
		dd_write /dev/mapper/a 4k 1 conv=fsync || why "fsync failed"
	done
	want "flushes at the disk" "$(disk_stat /dev/nullb0 flushes)" "$n"
	# Each is a write and an empty flush, which is never held.
	want "counted" "$(io_stat a writes write_sectors writes_held)" "$((2 * n)) $((8 * n)) 0"

	trace_on
	dd_write /dev/mapper/a 4k 5 oflag=direct,dsync || why "dsync write failed"
	trace_off
	# The letters: write, force unit access, synchronous.
	want "writes with FUA at the disk" "$(grep -cE 'block_rq_issue: [0-9,]+ WFS ' /sys/kernel/tracing/trace)" 5
}
t 120 "flush and FUA" flush

nowait() {
	nb nullb0 64 "${FAST[@]}"
	ioband a /dev/nullb0 d 1 0
	run_fio nowait --filename=/dev/mapper/a --ioengine=pvsync2 --nowait=1 --rw=randread --bs=4k \
		--numjobs=8 --number_ios=50 || why "fio failed"
	want "reads" "$(io_stat a reads)" 400
	want_true "$(($(io_stat a reads_held) > 0))" "nothing was held"
}
t 120 "RWF_NOWAIT is held and completes" nowait

# What was held is sent by others, who may wait for the disk: here for the only place
# in its queue, where others are, too. Each waits there itself, so there are many. fio
# ends at the first EAGAIN.
nowait_later() {
	local plain raw i
	nb nullb0 64 irqmode=2 completion_nsec=1000000 hw_queue_depth=1
	ioband a /dev/nullb0 d 4 0
	start_fio plain --filename=/dev/mapper/a --ioengine=psync --rw=randread --bs=4k --numjobs=12 \
		--time_based --runtime=60
	plain=$FIO
	start_fio raw --filename=/dev/nullb0 --ioengine=psync --rw=randread --bs=4k --time_based --runtime=60
	raw=$FIO
	for ((i = 0; i < 300 && $(io_stat a reads_held) < 100; i++)); do sleep 0.1; done
	run_fio nowait --filename=/dev/mapper/a --ioengine=pvsync2 --nowait=1 --rw=randread --bs=4k \
		--number_ios=50 || why "fio failed"
	end_fio "$plain" plain
	end_fio "$raw" raw
}
t 120 "RWF_NOWAIT that was held waits for the disk" nowait_later

# The priority in the queue is tested without a disk. Here: any of them passes.
priorities() {
	local class pids=() p
	nb nullb0 64 "${FAST[@]}"
	ioband a /dev/nullb0 d 1 0
	for class in 1 2 3; do
		ionice -c "$class" dd if=/dev/mapper/a of=/dev/null bs=4k count=200 iflag=direct status=none &
		pids+=($!)
	done
	for p in "${pids[@]}"; do
		wait "$p" || why "a reader failed"
	done
	want "reads" "$(io_stat a reads)" 600
}
t 120 "all classes of I/O priority get through" priorities

done_testing
