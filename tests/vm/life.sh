#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# vm: --memory 768M
# takes: 400
#
# Suspend, resume, reload, removal and loss of the disk, with I/O held: no I/O
# is lost, nothing hangs, everything goes away.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh

# load DEVICE [OPTION...]: in the background until unload; sets LOAD
load() {
	start_fio load --filename="$1" --rw=randrw --bs=4k --iodepth=32 --time_based --runtime=600 "${@:2}"
	LOAD=$FIO
}

# unload: the load must have seen no error
unload() { end_fio "$LOAD" load || why "the load failed"; }

# write_and_verify DEVICE: likewise; sets VERIFY
write_and_verify() {
	start_fio verify --filename="$1" --rw=randwrite --bs=4k --size=8m --iodepth=32 --verify=crc32c \
		--verify_fatal=1 --loops=1000 --time_based --runtime=600
	VERIFY=$FIO
}

verified() { end_fio "$VERIFY" verify || why "verify failed"; }

# wait_held NAME: until something of it was held
wait_held() {
	local i reads_held writes_held
	for ((i = 0; i < 100; i++)); do
		read -r reads_held writes_held < <(io_stat "$1" reads_held writes_held)
		((reads_held + writes_held == 0)) || return 0
		sleep 0.1
	done
	why "nothing of $1 is held"
}

# waited NAME: how many I/Os of its default group the statistics of waits have
waited() {
	local hist n sum=0
	hist=$(msg "$1" stats default | sed 's/.* wait_hist_us=\([^ ]*\) .*/\1/')
	for n in ${hist//,/ }; do sum=$((sum + ${n#*:})); done
	echo "$sum"
}

#--- Suspend --------------------------------------------------------------------------

# 64 reads are held behind a disk that takes 100 ms for one at a time: sent one
# by one they would take 6 s.
suspend_held() {
	local start took held
	nb nullb0 64 irqmode=2 completion_nsec=100000000 hw_queue_depth=128
	ioband a /dev/nullb0 d 1 0
	load /dev/mapper/a --iodepth=64
	wait_held a
	start=$(now_ms)
	within 20 dmsetup suspend a || why "suspend failed or hangs"
	took=$(($(now_ms) - start))
	want_true "$((took < 3000))" "suspend took $took ms"
	want "in flight" "$(in_flight /dev/nullb0)" 0
	# Each of them waited, whoever sent it.
	held=$(($(io_stat a reads_held) + $(io_stat a writes_held)))
	want "I/Os that waited" "$(waited a)" "$held"
	dmsetup resume a
	unload
}
t 120 "suspend sends held I/O and returns promptly" suspend_held

# 31 of 32 reads are held while the disk takes 200 ms for each.
suspend_noflush() {
	local before after start took
	nb nullb0 64 irqmode=2 completion_nsec=200000000 hw_queue_depth=64
	ioband a /dev/nullb0 d 1 0
	start_fio count --filename=/dev/mapper/a --rw=randread --bs=4k --iodepth=32 --number_ios=64
	wait_held a
	start=$(now_ms)
	before=$(disk_stat /dev/nullb0 reads)
	within 20 dmsetup suspend --noflush --nolockfs a || why "suspend failed or hangs"
	after=$(disk_stat /dev/nullb0 reads)
	took=$(($(now_ms) - start))
	# Before it was in force the disk went on as ever.
	want_true "$((after - before <= took / 200 + 2))" \
		"$((after - before)) reads were sent by the suspend in $took ms"
	sleep 0.5
	want "reads of the disk while suspended" "$(disk_stat /dev/nullb0 reads)" "$after"
	dmsetup resume a
	msg a io_throttle 64
	wait_fio "$FIO" count || why "fio failed"
	want "reads" "$(io_stat a reads)" 64
	want "reads of the disk" "$(disk_stat /dev/nullb0 reads)" 64
	want_true "$(($(io_stat a reads_held) <= 64))" "more held than read"
}
t 120 "suspend --noflush pushes held I/O back, and it comes again" suspend_noflush

# New I/O while suspended waits, and goes on.
io_while_suspended() {
	nb nullb0 64
	ioband a /dev/nullb0
	dmsetup suspend a
	dd_read /dev/mapper/a 4k 10 &
	local reader=$!
	sleep 0.5
	want "reads of the disk while suspended" "$(disk_stat /dev/nullb0 reads)" 0
	dmsetup resume a
	wait "$reader" || why "the read failed"
	want "reads" "$(io_stat a reads)" 10
}
t 120 "I/O that comes while suspended" io_while_suspended

suspend_often() {
	local i n how
	n=$(times 200)
	nb nullb0 64 memory_backed=1 "${CALM[@]}"
	ioband a /dev/nullb0 d 2 0
	ioband b /dev/nullb0 d
	write_and_verify /dev/mapper/a
	# The other half of the same disk.
	load /dev/mapper/b --offset=32m
	for ((i = 0; i < n; i++)); do
		how=
		((i % 2)) || how=--noflush
		# shellcheck disable=SC2086
		dmsetup suspend $how a && dmsetup resume a || { why "number $i failed"; break; }
	done
	verified
	unload
}
t 600 "200 times suspend and resume under load" suspend_often

#--- Reload -----------------------------------------------------------------------------

reload_often() {
	local i n same other linear
	n=$(times 30)
	nb nullb0 64 memory_backed=1 "${CALM[@]}"
	same=$(line /dev/nullb0 d 2 0 none weight 0 :100)
	other=$(line /dev/nullb0 d 7 0 none weight 0 :300)
	linear="0 $(sectors /dev/nullb0) linear /dev/nullb0 0"
	dmsetup create a --table "$same"
	ioband b /dev/nullb0 e 2 0
	write_and_verify /dev/mapper/a
	load /dev/mapper/b --offset=32m
	for ((i = 0; i < n; i++)); do
		swap_table a "$same" || why "same table, number $i"
		swap_table a "$other" --noflush || why "other io_throttle, number $i"
		[[ $(dmsetup table a) == *" d 7 0 none weight 0 :300" ]] || why "not in force: $(dmsetup table a)"
		swap_table a "$linear" || why "linear, number $i"
	done
	verified
	unload
}
t 600 "30 times reload under load: same, other settings, linear" reload_often

loaded_not_live() {
	local table status
	nb nullb0 64
	ioband a /dev/nullb0 d 4 50 none weight 9 :100
	ioband b /dev/nullb0 d
	table=$(dmsetup table)
	status=$(dmsetup status)
	dmsetup reload b --table "$(line /dev/nullb0 d 0 0 none weight 0 :7)" || why "reload failed"
	dmsetup create c --notable
	dmsetup reload c --table "$(line /dev/nullb0 d 0 0 none weight 0 :32767)" || why "load failed"
	want "live tables" "$(dmsetup table)" "$table"$'\n'"c: "
	want "live status" "$(dmsetup status)" "$status"$'\n'"c: "
	dmsetup clear b
	dmsetup clear c
	dmsetup remove c
	want "live tables after clear" "$(dmsetup table)" "$table"
	dd_read /dev/mapper/b 4k 1
	# Of the only device of a domain: the settings change when it goes live.
	dmsetup remove b
	dmsetup reload a --table "$(line /dev/nullb0 d 5 60 none weight 10 :101)" || why "reload of a failed"
	want "before" "$(dmsetup table a)" "$(sed -n 's/^a: //p' <<<"$table")"
	dmsetup suspend a
	dmsetup resume a
	[[ $(dmsetup table a) == *" d 5 60 none weight 10 :101" ]] || why "after: $(dmsetup table a)"
}
t 120 "a table that is loaded but not live changes nothing" loaded_not_live

refused_reload() {
	local table
	nb nullb0 64 "${CALM[@]}"
	ioband a /dev/nullb0 d 4 50 none weight 0 :100
	load /dev/mapper/a
	table=$(dmsetup table a)
	dmsetup reload a --table "$(line /dev/nullb0 d 60 50 none weight 0)" 2>/dev/null && why "accepted"
	dmsetup reload a --table "$(line /dev/nullb0 d 4 50 none weight 0 :0)" 2>/dev/null && why "accepted"
	want "table" "$(dmsetup table a)" "$table"
	want "users of the module" "$(use_count)" 1
	unload
}
t 120 "a refused reload changes nothing" refused_reload

two_targets() {
	local half table
	nb nullb0 64 memory_backed=1 "${FAST[@]}"
	half=$(($(sectors /dev/nullb0) / 2))
	# The second begins at sector 0 of its device as well.
	linear low /dev/nullb0 0 "$half"
	linear high /dev/nullb0 "$half" "$half"
	table() {
		printf '0 %d ioband /dev/mapper/low d %s none weight 0 :100\n' "$half" "$1"
		printf '%d %d ioband /dev/mapper/high d %s none weight 0 :200\n' "$half" "$half" "$1"
	}
	dmsetup create a <<<"$(table "3 30")" || { why "create failed"; return; }
	run_fio verify --filename=/dev/mapper/a --rw=randrw --bs=4k --size=100% --io_size=8m --iodepth=32 \
		--verify=crc32c --verify_fatal=1 || why "fio failed"
	want "lines of the table" "$(dmsetup table a | grep -c "d 3 30 none weight 0 :.00")" 2
	table=$(dmsetup table a)
	swap_table a "$table" || why "the same table is refused"
	swap_table a "$(table "5 50")" || { why "other settings for both are refused"; dmsetup resume a; }
	want "lines of the new table" "$(dmsetup table a | grep -c "d 5 50 none weight 0 :.00")" 2
	# 0 in the second line: the domain's, so what the first line sets.
	swap_table a "$(table "6 60" | sed '2s/6 60/0 0/')" || {
		why "settings in the first line are refused"
		dmsetup reload a <<<"$table" && dmsetup resume a
	}
	want "lines of the newest table" "$(dmsetup table a | grep -c "d 6 60 none weight 0 :.00")" 2
	dd_read /dev/mapper/a 1M 4 || why "read failed"
}
t 120 "two targets in one table" two_targets

#--- Removal ----------------------------------------------------------------------------

remove_force() {
	nb nullb0 64 "${SLOW[@]}"
	ioband a /dev/nullb0 d 1 0
	load /dev/mapper/a
	wait_held a
	# It can't be removed, being open, but it fails all I/O from now on.
	within 20 dmsetup remove --force a 2>/dev/null
	want_true "$(($? != 124))" "remove --force hangs"
	wait "$LOAD" && why "the load saw no error"
	grep -q "Input/output error" "$TMP/fio.load" || why "not EIO: $(cat "$TMP/fio.load")"
	within 20 dmsetup remove --retry a 2>/dev/null
	[[ ! -e /dev/mapper/a ]] || why "it is still there"
}
t 180 "remove --force with I/O held" remove_force

busy() {
	nb nullb0 64 "${SLOW[@]}"
	ioband a /dev/nullb0 d 1 0
	load /dev/mapper/a
	wait_held a
	local out
	out=$(dmsetup remove a 2>&1) && why "removed in use"
	want "remove" "$(errno_of "$out")" EBUSY
	rmmod dm_ioband 2>/dev/null && why "rmmod of a module in use"
	unload
	dmsetup remove a || why "remove failed"
	want "users of the module" "$(use_count)" 0
	rmmod dm_ioband || why "rmmod failed"
	modprobe dm-ioband || why "modprobe failed"
}
t 120 "what is in use can't be removed, and can afterwards" busy

# The disk goes away under load. A disk that is deleted fails its I/O.
lose_disk() {	# null_blk|scsi_debug
	local i disk
	case $1 in
	null_blk)
		nb nullb0 64 "${SLOW[@]}"
		disk=/dev/nullb0 ;;
	scsi_debug)
		scsi_debug ndelay=4000000 max_queue=32 || { why "no disk"; return; }
		disk=$REPLY ;;
	esac
	ioband a "$disk" d 1 0
	load /dev/mapper/a
	wait_held a
	case $1 in
	null_blk) within 20 nb_del nullb0 ;;
	scsi_debug) within 20 bash -c "echo 1 >/sys/block/${disk##*/}/device/delete" ;;
	esac || why "deleting the disk failed or hangs"
	for ((i = 0; i < 200; i++)); do
		[[ -d /proc/$LOAD ]] || break
		sleep 0.1
	done
	if [[ -d /proc/$LOAD ]]; then why "the load still runs"; return; fi
	wait "$LOAD" && why "the load saw no error"
	within 20 dmsetup remove --retry a || why "remove failed"
}
t 180 "loss of the disk under load, null_blk" lose_disk null_blk
t 180 "loss of the disk under load, scsi_debug" lose_disk scsi_debug

percpu_kb() { awk '/^Percpu:/ { print $2 }' /proc/meminfo; }

create_often() {
	local i n before after table
	n=$(times 200)
	nb nullb0 64
	table=$(line /dev/nullb0)
	once() {
		{ dmsetup create a --table "$table" && { ((i % 4)) || dd_read /dev/mapper/a 4k 1; } && dmsetup remove a; } ||
			why "number $i"
	}
	# The first ones fill caches.
	for ((i = -10; i < 0; i++)); do once; done
	before=$(percpu_kb)
	for ((i = 0; i < n; i++)); do once; done
	after=$(percpu_kb)
	want "users of the module" "$(use_count)" 0
	want "memory left" "$(slab_left)" ""
	want_true "$((after - before < 16))" "per-CPU memory grew by $((after - before)) KiB"
}
t 600 "create and remove 200 times" create_often

come_and_go() {
	local i n table
	n=$(times 50)
	nb nullb0 64 "${CALM[@]}"
	ioband a /dev/nullb0 d 2 0
	table=$(line /dev/nullb0 d)
	load /dev/mapper/a
	for ((i = 0; i < n; i++)); do
		{ dmsetup create b --table "$table" && dd_read /dev/mapper/b 4k 4 && dmsetup remove b; } || { why "number $i"; break; }
	done
	want "users of the module" "$(use_count)" 1
	unload
}
t 600 "a domain's devices come and go 50 times under load of another" come_and_go

#--- Other devices below and above ------------------------------------------------------

below() {	# KIND
	local disk
	nb nullb0 64 memory_backed=1 "${FAST[@]}"
	case $1 in
	linear) linear low /dev/nullb0 8 65536; disk=/dev/mapper/low ;;
	delay) dmsetup create low --table "0 65536 delay /dev/nullb0 0 3"; disk=/dev/mapper/low ;;
	ioband) ioband low /dev/nullb0 inner 3 0; disk=/dev/mapper/low ;;
	same) ioband low /dev/nullb0 d 8 0; disk=/dev/mapper/low ;;
	brd) modprobe brd rd_nr=1 rd_size=32768; disk=/dev/ram0 ;;
	loop)
		modprobe -q loop
		truncate -s 32M "$TMP/file"
		disk=$(losetup -f --show "$TMP/file") ;;
	esac
	[[ -b $disk ]] || { why "no $disk"; return; }
	if [[ $1 == same ]]; then
		ioband a "$disk" d
	else
		ioband a "$disk" d 2 0
	fi
	run_fio verify --filename=/dev/mapper/a --rw=randrw --bsrange=4k-64k --size=4m --iodepth=16 \
		--verify=crc32c --verify_fatal=1 || why "fio failed"
	{ within 20 dmsetup suspend a && dmsetup resume a; } || why "suspend failed"
	dd_read /dev/mapper/a 4k 1 || why "read failed"
	dmsetup remove a
}
for kind in linear delay brd loop ioband; do
	t 180 "on $kind" below $kind
done

swap() {
	# What is swapped must be stored: compressed, since it is in memory again.
	modprobe zram num_devices=1
	echo 512M >/sys/block/zram0/disksize
	ioband a /dev/zram0 d 1 0
	mkswap /dev/mapper/a >/dev/null || why "mkswap failed"
	swapon /dev/mapper/a || { why "swapon failed"; return; }
	mkdir /sys/fs/cgroup/swap
	echo 48M >/sys/fs/cgroup/swap/memory.max
	(
		echo "$BASHPID" >/sys/fs/cgroup/swap/cgroup.procs
		# Twice over 96 MB.
		exec gawk 'BEGIN {
			for (r = 0; r < 2; r++)
				for (i = 0; i < 12000; i++)
					a[i] = sprintf("%8000d", i + r)
			for (i = 0; i < 12000; i++)
				if (a[i] + 0 != i + 1)
					exit 1
		}'
	) || why "the process that uses the memory failed"
	want_true "$(($(io_stat a writes) > 1000 && $(io_stat a reads) > 1000))" \
		"hardly swapped: $(io_stat a reads) reads, $(io_stat a writes) writes"
	within 60 swapoff /dev/mapper/a || why "swapoff failed"
	rmdir /sys/fs/cgroup/swap
	dmsetup remove a
	rmmod zram
}
t 600 "swap on a device with io_throttle 1" swap

done_testing
