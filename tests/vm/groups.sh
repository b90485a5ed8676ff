#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# vm: --icount
# takes: 220
#
# Groups below a device, and the policies: what each gets.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh
# shellcheck source=tests/lib/groups.sh
. ../lib/groups.sh

# refused ERRNO TEXT_IN_THE_LOG MESSAGE...
refused() {
	local out before after
	before=$(dmsetup table a)
	klog_read
	if out=$(msg a "${@:3}" 2>&1); then
		why "accepted: ${*:3}"
		return
	fi
	after=$(dmsetup table a)
	want "errno of ${*:3}" "$(errno_of "$out")" "$1"
	klog_read
	[[ $KLOG == *"$2"* ]] || why "${*:3}: the log says $KLOG"
	want "table after ${*:3}" "$after" "$before"
}

# three RW RW RW: users of weight 40, 20, 10 with 33 jobs each
three() {
	disk4
	ioband a /dev/nullb0 d 4 0 user weight 0 1000:40 1001:20 1002:10
	load uid:1000 --rw="$1" --numjobs=33
	load uid:1001 --rw="$2" --numjobs=33
	load uid:1002 --rw="$3" --numjobs=33
	sleep 0.5
	window 2 ios 1000 1001 1002
	stop_loads
	want_parts 5 571 286 143
	want "I/Os of nobody's" "$(got a -1 1 4)" "0 0 "
}
t 600 "three users read"		three randread randread randread
full t 600 "three users write"		three randwrite randwrite randwrite
t 600 "the third of three users writes"	three randread randread randwrite

# two TYPE AS ID AS ID: 2:1 by whatever tells them apart
two() {
	disk4
	ioband a /dev/nullb0 d 4 0 "$1" weight 0 "$3:200" "$5:100"
	load "$2" --rw=randread --numjobs=8
	load "$4" --rw=randread --numjobs=8
	sleep 0.5
	window 2 ios "$3" "$5"
	stop_loads
	want_parts 5 667 333
}
t 600 "uid"		two uid uid:1000 1000 uid:1001 1001
full t 600 "gid"		two gid gid:1000 1000 gid:1001 1001

# by_process TYPE: the number is known once the process runs
by_process() {
	disk4
	ioband a /dev/nullb0 d 4 0 "$1" weight 0 :1
	load nobody --rw=randread --numjobs=8
	load nobody --rw=randread --numjobs=8
	sleep 0.5
	msg a attach "${LOADS[0]}:200"
	msg a attach "${LOADS[1]}:100"
	sleep 0.5
	window 2 ios "${LOADS[0]}" "${LOADS[1]}"
	stop_loads
	want_parts 5 667 333
}
full t 600 "pid"		by_process pid
t 600 "pgrp"		by_process pgrp

new_cgroups() {
	local c
	for c; do mkdir -p "/sys/fs/cgroup$c"; done
}
old_cgroups() {
	local c i
	for c; do
		# What ended just now may still be in it.
		for ((i = 0; i < 20; i++)); do rmdir "/sys/fs/cgroup$c" 2>/dev/null && break; sleep 0.1; done
	done
}

cgroups() {
	new_cgroups /p /p/x /q
	disk4
	ioband a /dev/nullb0 d 4 0 cgroup weight 0 /p:200 "$(stat -c %i /sys/fs/cgroup/q):100"
	# /p/x has no group: its nearest ancestor's.
	load cgroup:/p/x --rw=randread --numjobs=8
	load cgroup:/q --rw=randread --numjobs=8
	sleep 0.5
	window 2 ios /p "$(stat -c %i /sys/fs/cgroup/q)"
	stop_loads
	want_parts 5 667 333
	old_cgroups /p/x /p /q
	# The groups stay until they are detached, under the names they had, also if
	# there is another cgroup of that name.
	new_cgroups /p
	refused EEXIST "that of a cgroup that was removed: detach it first" attach /p
	msg a detach /p || why "can't detach a group whose cgroup is gone"
	msg a attach /p || why "can't attach the new one"
	old_cgroups /p
}
t 600 "cgroups: a path, a number, the nearest ancestor, gone ones"	cgroups

# dmsetup quotes once more what is quoted in a table line: such a path goes by number.
quoted_cgroups() {
	local line id
	mkdir '/sys/fs/cgroup/a b' '/sys/fs/cgroup/a\b'
	mkdir '/sys/fs/cgroup/a b/c'
	id=$(stat -c %i '/sys/fs/cgroup/a b')
	disk4
	ioband a /dev/nullb0 d 4 0 cgroup weight 0 :100
	msg a attach '/a\ b:7'
	msg a attach '/a\\b:8'
	line=$(dmsetup table a)
	want "groups" "${line##*weight 0 }" \
		":100 $(stat -c %i '/sys/fs/cgroup/a b'):7 $(stat -c %i '/sys/fs/cgroup/a\b'):8"
	swap_table a "$line" || why "the line is refused"
	want "table of the new one" "$(dmsetup table a)" "$line"
	# A line of key=value has no other blanks.
	msg a attach '/a\ b/c:9'
	want "words of the stats" "$(msg a stats | grep -c '^id=\(-1\|[0-9]*\) parent=\(none\|[0-9]*\) weight=')" 4
	want "a child in the stats" "$(msg a stats '/a\ b/c' | cut -d' ' -f1,2)" \
		"id=$(stat -c %i '/sys/fs/cgroup/a b/c') parent=$id"
	rmdir '/sys/fs/cgroup/a b/c' '/sys/fs/cgroup/a b' '/sys/fs/cgroup/a\b'
	# The number that is printed is understood, also when the cgroup is gone.
	want "of a cgroup that is gone" "$(msg a stats "$id" | cut -d' ' -f1-3)" "id=$id parent=none weight=7"
	msg a detach "$id" || why "can't be detached by its number"
	want "groups that are left" "$(msg a stats | grep -c '^id=')" 3
}
t 60 "cgroups: paths with a blank or a backslash" quoted_cgroups

cgroup_tree() {
	new_cgroups /p /p/x /p/y /q
	disk4
	# The children are attached first: the tree is found all the same.
	ioband a /dev/nullb0 d 4 0 cgroup weight 0 /p/x:300 /p/y:100 /q:100 /p:100
	load cgroup:/p/x --rw=randread --numjobs=8
	load cgroup:/p/y --rw=randread --numjobs=8
	load cgroup:/q --rw=randread --numjobs=8
	sleep 0.5
	window 2 ios /p/x /p/y /q
	want_parts 5 375 125 500
	# A detached group's children move up: 300, 100, 100.
	msg a detach /p
	sleep 0.2
	window 2 ios /p/x /p/y /q
	want_parts 5 600 200 200
	stop_loads
	old_cgroups /p/x /p/y /p /q
}
t 600 "a tree of cgroups"	cgroup_tree

two_devices() {
	disk4
	ioband a /dev/nullb0 d 4 0 user weight 0 1000:40 1001:30 1002:20
	ioband b /dev/nullb0 d 0 0 none weight 0 :10
	load uid:1000 --rw=randread --numjobs=8
	load uid:1001 --rw=randread --numjobs=8
	load uid:1002 --rw=randread --numjobs=8
	load nobody --rw=randread --numjobs=8 --filename=/dev/mapper/b
	sleep 0.5
	window 2 ios 1000 1001 1002 b/-1
	stop_loads
	want_parts 5 400 300 200 100
}
full t 600 "weights count among all groups of all devices of a domain"	two_devices

ratio() {
	disk4
	ioband a /dev/nullb0 d 4 0 user weight 0 "1000:$1" "1001:$2"
	load uid:1000 --rw=randread --numjobs=8
	load uid:1001 --rw=randread --numjobs=8
	sleep 1
	window 4 ios 1000 1001
	stop_loads
	want_parts 5 "$3" "$4"
}
full t 600 "1:1"	ratio 1 1 500 500
full t 600 "1:9"	ratio 1 9 100 900
full t 600 "1:99"	ratio 1 99 10 990

sizes() {
	# 20 MB/s in all, so that large I/O takes longer, and 1 ms at least for each.
	disk4 mbps=20
	ioband a /dev/nullb0 d 4 0 user weight-iosize 0 1000:100 1001:100
	load uid:1000 --rw=randread --numjobs=16 --bs=4k
	load uid:1001 --rw=randread --numjobs=16 --bs=256k
	sleep 1
	window 4 bytes 1000 1001
	stop_loads
	want_parts 10 500 500
}
full t 600 "weight-iosize: 4 KiB against 256 KiB, equal bytes"	sizes

# A disk of 4000 I/O/s, 4 KiB each: 16000 KB/s
ranges() {
	disk4
	ioband a /dev/nullb0 d 4 0 user range-bw 0 1000:8000:10000 1001:0:1000 1002:0:0
	load uid:1000 --rw=randread --numjobs=16
	load uid:1001 --rw=randread --numjobs=16
	load uid:1002 --rw=randread --numjobs=16
	sleep 1
	window 4 bytes 1000 1001 1002
	want_near "1000, min 8000" "$((GOT[0] / 4096))" 8000 2
	want_near "1001, max 1000" "$((GOT[1] / 4096))" 1000 1
	[[ $(msg a stats 1000) == "id=1000 parent=none min_kbps=8000 max_kbps=10000 inflight="* ]] || why "$(msg a stats 1000)"
	# What is left over goes to the third until the first has its share of it.
	want_true "$((GOT[0] + GOT[1] + GOT[2] > 4 * 15500 * 1024))" "the disk was idle: ${GOT[*]}"
	msg a range-bw 1002:6000:6000
	msg a range-bw 1000:0:2000
	sleep 1
	window 4 bytes 1000 1001 1002
	want_near "1000, max 2000" "$((GOT[0] / 4096))" 2000 1
	want_near "1002, 6000 to 6000" "$((GOT[2] / 4096))" 6000 2
	stop_loads
}
full t 600 "range-bw: minimum, maximum, the rest"	ranges

switch_policy() {
	disk4
	ioband a /dev/nullb0 d 4 0 user weight 0 1000:200 1001:100
	load uid:1000 --rw=randread --numjobs=8
	load uid:1001 --rw=randread --numjobs=8
	sleep 0.5
	msg a policy range-bw
	want "table" "$(dmsetup table a | cut -d' ' -f8-)" "user range-bw 0 :0:0 1000:0:0 1001:0:0"
	msg a range-bw 1000:0:400
	sleep 1
	window 2 bytes 1000
	want_near "range-bw" "$((GOT[0] / 2048))" 400 2
	# What the maximum holds is free at once.
	msg a policy weight 0
	msg a weight 1000:50
	msg a weight 1001:150
	sleep 0.3
	window 2 ios 1000 1001
	want_parts 10 250 750
	msg a policy weight-iosize 64
	want "table" "$(dmsetup table a | cut -d' ' -f8-)" "user weight-iosize 64 :100 1000:100 1001:100"
	sleep 0.3
	window 2 ios 1000 1001
	want_parts 10 500 500
	stop_loads
}
full t 600 "policy switched under load"	switch_policy

# Buffered writes belong to who dirtied the pages, whoever writes them back.
writeback() {	# SUSPENDS FILE_SYSTEM OPTION...
	local i suspends=$1
	shift
	new_cgroups /p /q
	nb nullb0 512 memory_backed=1
	ioband a /dev/nullb0 d 4 0 cgroup weight 0 /p:100 /q:100
	"mkfs.$1" "${@:2}" /dev/mapper/a >/dev/null
	mkdir -p /mnt/a
	mount /dev/mapper/a /mnt/a
	msg a reset
	( echo "$BASHPID" >/sys/fs/cgroup/p/cgroup.procs; dd if=/dev/zero of=/mnt/a/p bs=1M count=20 status=none )
	( echo "$BASHPID" >/sys/fs/cgroup/q/cgroup.procs; dd if=/dev/zero of=/mnt/a/q bs=1M count=40 status=none )
	sync &
	# What device-mapper defers meanwhile comes again from a thread of its own.
	for ((i = 0; i < suspends; i++)); do
		{ dmsetup suspend --noflush --nolockfs a && sleep 0.02 && dmsetup resume a; } || why "suspend $i"
	done
	wait $!
	# In MiB: what each wrote, and some of the file system's own.
	want_near "of /p" "$(($(total bytes /p) >> 20))" 20 5
	want_near "of /q" "$(($(total bytes /q) >> 20))" 40 5
	umount /mnt/a
	old_cgroups /p /q
}
t 600 "writeback on ext4"	writeback 0 ext4 -qF
full t 600 "writeback on xfs"	writeback 0 xfs -qf
t 600 "writeback on ext4, suspended in its course"	writeback 5 ext4 -qF

loop_device() {
	new_cgroups /p
	nb nullb0 256 memory_backed=1
	ioband a /dev/nullb0 d 4 0 cgroup weight 0 /p:100
	local l
	modprobe loop
	l=$(losetup -f --show --direct-io=on /dev/mapper/a)
	msg a reset
	( echo "$BASHPID" >/sys/fs/cgroup/p/cgroup.procs; dd_write "$l" 1M 10 )
	want "bytes of /p" "$(total bytes /p)" $((10 << 20))
	losetup -d "$l"
	old_cgroups /p
}
t 600 "through a loop device"	loop_device

thousand() {
	disk4
	ioband a /dev/nullb0 d 4 0 user
	local i words
	for ((i = 10001; i <= 11000; i++)); do msg a attach "$i" || break; done
	words=$(dmsetup status a | wc -w)
	want "words of the status" "$words" $((4 + 7 * 1001))
	want "the last group" "$(got a 11000 0)" "11000 "
	want "groups in the table" "$(dmsetup table a | wc -w)" $((10 + 1001))
	want "groups in the stats" "$(msg a stats | grep -c '^id=')" 1001
	load uid:10001 --rw=randread --numjobs=8
	load uid:11000 --rw=randread --numjobs=8
	msg a weight 10001:300
	sleep 0.5
	window 2 ios 10001 11000
	stop_loads
	want_parts 5 750 250
}
full t 600 "a thousand groups"	thousand

# A detached group's held I/O is sent, and what comes later is the default's.
come_and_go() {
	local i before
	disk4
	ioband a /dev/nullb0 d 4 0 user weight 0 :100 1001:100
	load uid:1000 --rw=randread --numjobs=16
	load uid:1001 --rw=randread --numjobs=16
	for ((i = 0; i < $(times 200); i++)); do
		msg a attach "1000:$((i + 1))" || why "attach $i"
		msg a detach 1000 || why "detach $i"
	done
	before=$(total ios -1)
	sleep 0.5
	want_true "$(($(total ios -1) > before + 100))" "the default group got nothing"
	window 2 ios -1 1001
	stop_loads
	want_parts 5 500 500
}
full t 600 "attach and detach under load"	come_and_go

reload_same() {
	local before
	disk4
	ioband a /dev/nullb0 d 4 0 user weight 0 :10 1000:80:rbps=204800 1001:80:wiops=9:burst_ms=50:parent=1000
	msg a attach 1002:7:parent=1001
	msg a limit default riops=77
	before=$(dmsetup table a)
	want "line" "${before#* * ioband * }" "d 4 0 user weight 0 :10:riops=77 1000:80:rbps=204800 1001:80:wiops=9:burst_ms=50:parent=1000 1002:7:parent=1001"
	swap_table a "$before" || why "the table's own line was refused"
	want "line after it was loaded" "$(dmsetup table a)" "$before"
}
t 600 "the table can be loaded again"	reload_same

bad_messages() {
	nb nullb0 64
	new_cgroups /p
	ioband a /dev/nullb0 d 4 0 user weight 0 :100 1000:50 1001:50:parent=1000
	local errno text message
	while IFS='|' read -r errno text message; do
		[[ $errno ]] || continue
		# shellcheck disable=SC2086
		refused "$errno" "$text" $message
	done <<'ROWS'
EEXIST|is there already|attach 1000
EINVAL|must be a user number|attach bob
EINVAL|must be a user number|attach -5
EINVAL|the id is empty|attach :100
ERANGE|must be a user number|attach 4294967296
EINVAL|is the default group's|attach -1
ERANGE|weight is 0|attach 1002:0
EINVAL|too much|attach 1002:1:2
EINVAL|is unknown, allowed are: rbps=|attach 1002:1:bps=5
ENOENT|parent: no group "4711"|attach 1002:1:parent=4711
ENOENT|no group|detach 4711
EINVAL|can't be detached|detach default
ENOENT|no group|weight 4711:10
EINVAL|must be written|weight 1000:10:rbps=5
EINVAL|must be written|weight :10
EINVAL|decimal number|weight 1000:
EINVAL|has no ranges|range-bw 1000:1:2
ERANGE|rbps is 0|limit 1000 rbps=0
ERANGE|rbps is 9223372036854775808|limit 1000 rbps=9223372036854775808
EINVAL|rbps is "-1"|limit 1000 rbps=-1
EINVAL|rbps is "12k"|limit 1000 rbps=12k
EINVAL|rbps is ""|limit 1000 rbps=
ERANGE|burst_ms is 0|limit 1000 burst_ms=0
ERANGE|burst_ms is 10001|limit 1000 burst_ms=10001
EINVAL|use parent|limit 1000 parent=1001
EINVAL|wiops=, burst_ms=|limit 1000 foo=7
EINVAL|rbps is given twice|limit 1000 rbps=1 rbps=2
EINVAL|wbps is given twice|attach 1002:1:wbps=1:wbps=2
EINVAL|allowed are: rbps=|limit 1000 rbps
EINVAL|must be: limit|limit 1000
ENOENT|no group|limit 4711 rbps=1
EINVAL|the same or below|parent 1000 1001
EINVAL|the same or below|parent 1000 1000
EINVAL|can't have a parent|parent default 1000
ENOENT|parent: no group "4711"|parent 1000 4711
EBUSY|detach them first|type cgroup
EINVAL|allowed are: none, user, uid, gid|type bogus
EINVAL|allowed are: default, weight, weight-iosize, range-bw|policy bogus
ENOENT|no group|stats 4711
ROWS
	msg a policy range-bw
	refused EINVAL "min is 9 and max is 1: max must not be below min" range-bw 1000:9:1
	refused EINVAL "has no weights" weight 1000:5
	refused EINVAL "max is missing" range-bw 1000:9
	msg a detach 1001
	msg a detach 1000
	msg a type cgroup
	refused ENOENT "no cgroup" attach /nowhere
	refused ENOENT "no cgroup" attach 999999999
	refused EINVAL "path or the number" attach p
	old_cgroups /p
}
t 600 "messages that are refused change nothing"	bad_messages

done_testing
