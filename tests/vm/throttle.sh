#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# vm: --icount
# not brief
# takes: 180
#
# How exact limits are, at the level of single I/Os: the rate, each window of a
# second and the longest gap; changes, large I/O in pieces, trees, idle groups,
# and what becomes of held I/O when its disk goes. "limits" has the overview.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh
# shellcheck source=tests/lib/groups.sh
. ../lib/groups.sh

#--- What was sent, and when -------------------------------------------------------

TRACING=/sys/kernel/tracing
echo 16384 >"$TRACING/buffer_size_kb"
echo mono >"$TRACING/trace_clock"

sent_on() {
	echo >"$TRACING/trace"
	echo 1 >"$TRACING/events/block/block_bio_remap/enable"
}

# sent_off [MAX_SECTORS]: $TMP/sent becomes a line for each I/O that went to the disk:
# seconds, r or w, part of the disk, bytes, requests (of MAX_SECTORS)
sent_off() {
	echo 0 >"$TRACING/events/block/block_bio_remap/enable"
	# "<task>-<pid> [000] ..... 12.345678: block_bio_remap: 252,0 R 64 + 8 <- (253,0) 64"
	awk -v max="${1:-0}" '/ block_bio_remap: / {
		print $(NF - 9) + 0, $(NF - 6) ~ /W/ ? "w" : "r", int($NF / 65536), 512 * $(NF - 3),
			max ? int(($(NF - 3) + max - 1) / max) : 1
	}' OFMT=%.6f "$TRACING/trace" >"$TMP/sent"
	grep -q 'entries-in-buffer/entries-written: \([0-9]*\)/\1 ' "$TRACING/trace" || why "the trace has lost something"
}

# kept WHAT RATE UNIT DIRECTION PART...: what went to these parts had this rate within
# 1 %, and no second had more than one I/O above it: the bucket of a group that never
# idles is always empty. UNIT is bytes or ios, DIRECTION r, w or rw.
kept() {
	local what=$1 rate=$2 got most gap size n
	# An I/O goes once its own tokens are there, so those of the first are before it.
	read -r got most gap size n < <(awk -v unit="$3" -v dirs="$4" -v parts=" ${*:5} " '
		index(dirs, $2) && index(parts, " " $3 " ") {
			u = unit == "bytes" ? $4 : $5
			t[++n] = $1
			sum[n] = sum[n - 1] + u
			if (n > 1 && $1 - t[n - 1] > gap)
				gap = $1 - t[n - 1]
			if (u > size)
				size = u
			while (t[n] - t[first + 1] >= 1)
				first++
			if (sum[n] - sum[first] > most)
				most = sum[n] - sum[first]
		}
		END {
			got = n > 1 ? (sum[n] - sum[1]) / (t[n] - t[1]) : 0
			printf "%.0f %.0f %.0f %.0f %d\n", got * 1000, most * 1000, gap * 1e6, size * 1000, n
		}' "$TMP/sent")
	echo "$what: wanted $rate $3/s, got ${got%???}.${got: -3}, in the worst second ${most%???}," \
		"longest gap $gap us, $n I/Os" | tee -a "$TMP/figures"
	want_near "$what, 1/1000 $3 a second" "$got" $((rate * 1000)) 1
	want_true "$((most <= rate * (1000 + SLACK) + size))" "$what: a second with ${most%???} $3, wanted $rate and one I/O"
	# The next one is sent when its tokens are there, not at the next tick.
	want_true "$((gap <= size * 1000 / rate + GAP_US))" "$what: a gap of $gap us"
}
# For both: microseconds, and thousandths of the rate.
GAP_US=1500 SLACK=2

#--- Disks and loads -----------------------------------------------------------------

# deep AS PART OPTION...: more I/O than a limit lets through, at any time. Loads use parts
# of 32 MiB of the disk, which tells them apart.
deep() {
	load "$1" --offset=$(($2 * 32))m --size=32m --ioengine=libaio --iodepth=8 --iodepth_batch_complete_max=8 \
		--runtime=100000 --zero_buffers "${@:3}"
}

# one AS PART OPTION...: one I/O after the other
one() { deep "$@" --ioengine=psync; }

# held_now: I/Os that the device holds, which the kernel doesn't count as in flight
held_now() { msg a stats | sed -n 's/^domain=.* held=\([0-9]*\) .*/\1/p'; }

# wait_held N
wait_held() {
	local i
	for ((i = 0; i < 100; i++)); do
		(($(held_now) != $1)) || return 0
		sleep 0.1
	done
	why "$(held_now) I/Os are held, not $1"
}

#--- Rates -----------------------------------------------------------------------------

# rates RW SIZE KEY RATE:SECONDS...: each set under load. Measured from the change on.
rates() {
	local rw=$1 size=$2 key=$3 rate unit=bytes
	[[ $key != ?iops ]] || unit=ios
	shift 3
	fast_disk
	ioband a /dev/nullb0 d 32 0 user weight 0 :100 "1000:100:$key=1"
	deep uid:1000 0 --rw="rand$rw" --bs="$size"
	wait_held 8
	for rate; do
		msg a limit 1000 "$key=${rate%:*}"
		sent_on
		sleep "${rate#*:}"
		sent_off
		kept "$rw $size $key" "${rate%:*}" "$unit" "${rw:0:1}" 0
	done
	msg a limit 1000 "$key=max"
	stop_loads
}
full t 3600 "bytes a second, reads of 4 KiB"		rates read 4k rbps 51200:20 20000000:1 1000000:20
full t 3600 "bytes a second, writes of 4 KiB"	rates write 4k wbps 409600:20 51200:20 20000000:1
full t 3600 "bytes a second, reads of 16 KiB"	rates read 16k rbps 2000000:20
full t 3600 "bytes a second, writes of 64 KiB"	rates write 64k wbps 51200:40 10485760:20
full t 3600 "bytes a second, reads of 256 KiB"	rates read 256k rbps 104857600:5 1048576:20
full t 3600 "bytes a second, writes of 1 MiB"	rates write 1m wbps 51200:110 104857600:5 1000000000:1
full t 3600 "bytes a second, reads of 1 MiB"		rates read 1m rbps 1000000000:1 10485760:20
full t 3600 "I/Os a second, reads"			rates read 4k riops 1:20 3000:1 100:20
t 3600 "I/Os a second, writes"			rates write 64k wiops 500:10 10:20 2000:1

# A single reader: what it may send next is always less than a tick away.
debt() {
	fast_disk completion_nsec=10000
	ioband a /dev/nullb0 d 32 0
	msg a limit default rbps=20000000
	one nobody 0 --rw='read'
	sleep 0.3
	sent_on
	sleep 1
	sent_off
	kept "one reader" 20000000 bytes r 0
	stop_loads
}
t 600 "a debt shorter than a tick"	debt

unlimited() {	# KEY
	local alone
	disk4 size=512
	ioband a /dev/nullb0 d 4 0
	deep nobody 0 --rw=randread
	sleep 0.3
	window 1 ios -1
	alone=${GOT[0]}
	msg a limit default "$1=9223372036854775807"
	window 1 ios -1
	want_near "with the largest limit" "${GOT[0]}" "$alone" 1
	stop_loads
}
t 600 "the largest limit slows nobody, bytes"	unlimited rbps
full t 600 "the largest limit slows nobody, I/Os"	unlimited riops

#--- Large I/O in pieces -------------------------------------------------------------------

# pieces RW SIZE UNIT RATE LIMIT...: a disk that takes 4 KiB at a time
pieces() {
	fast_disk max_sectors=8
	ioband a /dev/nullb0 d 0 0
	msg a limit default "${@:5}"
	deep nobody 0 --rw="$1" --bs="$2" --iodepth=2
	sleep 3
	sent_on
	sleep 20
	sent_off 8
	kept "$1 of $2, ${*:5}" "$4" "$3" "${1:0:1}" 0
	msg a limit default rbps=max wbps=max riops=max wiops=max
	stop_loads
}
# A millisecond for the 256 pieces.
t 600 "pieces are counted, 1 MiB, reads"	pieces read 1m ios 512 riops=512
full t 600 "pieces are counted, 256 KiB, writes"	pieces write 256k ios 256 wiops=256
full t 600 "bytes are counted once"			pieces write 1m bytes 1048576 wbps=1048576
t 600 "bytes are counted once, high wiops"	pieces write 1m bytes 1048576 wbps=1048576 wiops=1000000
full t 600 "pieces are counted, high wbps"		pieces write 1m ios 256 wiops=256 wbps=100000000000

two_at_once() {	# LIMIT...
	local start first last
	fast_disk max_sectors=8
	ioband a /dev/nullb0 d 0 0
	start=$(now_ms)
	msg a limit default "$@"
	dd_write /dev/mapper/a 1M 1 &
	dd_write /dev/mapper/a 1M 1 seek=1 &
	wait -n
	first=$(($(now_ms) - start))
	wait
	last=$(($(now_ms) - start))
	want_near "ms of the first" "$first" 1000 2
	want_near "ms of the second" "$last" 2000 2
}
t 600 "two writes of 1 MiB end after 1 and 2 s"	two_at_once wbps=1048576 wiops=1000000

#--- Changes ---------------------------------------------------------------------------

# held DIRECTION SIZE KEY OLD NEW SECONDS WANTED_MS: one I/O, a request each 4 KiB, is held;
# the limit changes after that time. What it has waited for until then isn't lost.
held() {
	local start ms
	fast_disk max_sectors=8
	ioband a /dev/nullb0 d 0 0
	start=$(now_ms)
	msg a limit default "$3=$4"
	"dd_$1" /dev/mapper/a "$2" 1 &
	sleep "$6"
	msg a limit default "$3=$5"
	wait $!
	ms=$(($(now_ms) - start))
	want_near "ms for $2" "$ms" "$7" 1
}
t 600 "lower while it waits, bytes"	held write 1M wbps 524288 262144 0.99 3000
full t 600 "higher while it waits, bytes"	held read 1M rbps 262144 524288 0.99 2500
full t 600 "lower while it waits, I/Os"	held write 1M wiops 128 64 0.99 3000
full t 600 "higher while it waits, I/Os"	held read 1M riops 64 128 0.99 2500
# After 100 of the 512 s, 412 bytes are left.
full t 600 "the least limit there is"	held read 512 rbps 1 8 100 151500

# A hundred changes up and down while I/O waits: the average is the limits'.
to_and_fro() {
	local i
	fast_disk
	ioband a /dev/nullb0 d 32 0 user weight 0 :100 1000:100:wbps=1048576
	deep uid:1000 0 --rw=write --bs=64k
	sleep 2
	sent_on
	for ((i = 0; i < 50; i++)); do
		msg a limit 1000 wbps=1048576
		sleep 0.1
		msg a limit 1000 wbps=3145728
		sleep 0.1
	done
	sent_off
	stop_loads
	kept "1 and 3 MiB/s in turn" 2097152 bytes w 0
}
# A second may have a little more than half of the higher rate.
GAP_US=50000 SLACK=60 t 600 "the limit changes a hundred times"	to_and_fro

killed() {
	local pid start ms
	fast_disk
	ioband a /dev/nullb0 d 32 0
	msg a limit default rbps=1
	dd_read /dev/mapper/a 64k 1 &
	pid=$!
	wait_held 1
	kill -KILL "$pid"
	start=$(now_ms)
	msg a limit default rbps=max
	wait "$pid"
	ms=$(($(now_ms) - start))
	want_true "$((ms < 200))" "the reader took $ms ms to die"
}
t 600 "a reader that is killed while it waits"	killed

#--- Several at once -------------------------------------------------------------------------

# below POLICY GROUPS SECONDS LOAD... -- CHECK...: LOAD is "UID RW PART OPTION...", all of
# them run; CHECK is "RATE UNIT DIRECTION PART..."
below() {
	local policy=$1 groups=$2 seconds=$3 a
	shift 3
	fast_disk
	# shellcheck disable=SC2086
	ioband a /dev/nullb0 d 32 0 user "$policy" 0 $groups
	while [[ $1 != -- ]]; do
		read -ra a <<<"$1"
		deep "uid:${a[0]}" "${a[2]}" --rw="${a[1]}" "${a[@]:3}"
		shift
	done
	sleep 2
	sent_on
	sleep "$seconds"
	sent_off
	stop_loads
	for a in "${@:2}"; do
		# shellcheck disable=SC2086
		kept "$a" $a
	done
}
full t 600 "the parent's limit is the tighter"	below weight \
	"1000:100:rbps=1000000 1001:100:rbps=2000000:parent=1000" 10 "1001 read 1" -- "1000000 bytes r 1"
full t 600 "the child's limit is the tighter"	below weight \
	"1000:100:rbps=2000000 1001:100:rbps=1000000:parent=1000" 10 "1001 read 1" -- "1000000 bytes r 1"
full t 600 "I/Os above, bytes below"			below weight \
	"1000:100:riops=100 1001:100:rbps=4096000:parent=1000" 10 "1001 randread 1" -- "100 ios r 1"
t 600 "bytes above, I/Os below"			below weight \
	"1000:100:rbps=409600 1001:100:riops=1000:parent=1000" 10 "1001 randread 1" -- "409600 bytes r 1"
# What a child can't use is the others'. They have what is left, which is no bucket of
# their own.
SLACK=60 GAP_US=50000 t 600 "three children below a limit, one of them limited"	below weight \
	"1000:100:wbps=1228800 1001:100:wbps=204800:parent=1000 1002:100:parent=1000 1003:300:parent=1000" 20 \
	"1001 write 1" "1002 write 2" "1003 write 3" -- \
	"204800 bytes w 1" "256000 bytes w 2" "768000 bytes w 3" "1228800 bytes w 1 2 3"
full t 600 "all four limits, four jobs"		below weight \
	"1000:100:rbps=1048576:wbps=1048576:riops=50:wiops=1000" 20 \
	"1000 randread 0 --numjobs=2" "1000 write 1 --bs=64k --numjobs=2" -- "50 ios r 0" "1048576 bytes w 1"
SLACK=60 GAP_US=50000 t 600 "maximums of ranges in parent and child"	below range-bw \
	"1000:0:200 1001:0:50:parent=1000 1002:0:0:parent=1000" 20 \
	"1001 read 1" "1002 write 2" -- "51200 bytes r 1" "153600 bytes w 2" "204800 bytes rw 1 2"

# tree KIND DIRECTION LIMITS READER:RATE...: a tree 1 > 2 > 3 and 4 beside it, of users or
# cgroups. LIMITS are those of 1 to 4. A RATE of 0 is without a limit.
tree() {
	local kind=$1 rw=$2 key=$2 limit=() group path as n want=() spec
	local -A below=([1]="1 2 3" [2]="2 3" [3]=3 [4]=4)
	read -ra limit <<<"- $3"
	shift 3
	# A disk of 5 ms: whoever has no limit makes 200 I/Os a second, one after the other.
	fast_disk completion_nsec=5000000
	path=([1]=/1 [2]=/1/2 [3]=/1/2/3 [4]=/4)
	[[ $kind != cgroup ]] || mkdir -p /sys/fs/cgroup/1/2/3 /sys/fs/cgroup/4
	ioband a /dev/nullb0 d 32 0 "$kind"
	for n in 1 2 3 4; do
		group=100$n
		[[ $kind != cgroup ]] || group=${path[n]}
		msg a attach "$group"
		[[ ${limit[n]} == - ]] || msg a limit "$group" "${key:0:1}bps=${limit[n]}"
	done
	if [[ $kind == user ]]; then
		msg a parent 1002 1001
		msg a parent 1003 1002
	fi
	for spec; do
		n=${spec%:*}
		as=uid:100$n
		[[ $kind != cgroup ]] || as=cgroup:${path[n]}
		one "$as" "$n" --rw="$rw"
	done
	# Until what the buckets held when they began is used up.
	sleep 4
	sent_on
	sleep 20
	sent_off
	stop_loads
	for spec; do
		n=${spec%:*}
		if ((${spec#*:})); then
			kept "$spec" "${spec#*:}" bytes "${rw:0:1}" "$n"
		else
			n=$(awk -v n="$n" '$3 == n' "$TMP/sent" | wc -l)
			want_true "$((n >= 3920))" "the one without a limit did $n I/Os in 20 s"
			echo "$spec: $n I/Os" >>"$TMP/figures"
		fi
	done
	for n in 1 2 3 4; do
		# shellcheck disable=SC2086
		[[ ${limit[n]} == - ]] || kept "all below $n" "${limit[n]}" bytes "${rw:0:1}" ${below[$n]}
	done
	[[ $kind != cgroup ]] || rmdir /sys/fs/cgroup/1/2/3 /sys/fs/cgroup/1/2 /sys/fs/cgroup/1 /sys/fs/cgroup/4
}
for kind in user cgroup; do
	# The readers in a tree of users are in "limits".
	rw='write'
	[[ $kind != cgroup ]] || rw='read'
	if [[ $kind == cgroup ]]; then
		full t 600 "$kind: an ancestor's limit, from the bottom"	tree "$kind" "$rw" "204800 - - -" 3:204800
		full t 600 "$kind: an ancestor's limit, from the middle"	tree "$kind" "$rw" "204800 - - -" 2:204800
	fi
	full t 600 "$kind: limits below an unlimited one"	tree "$kind" "$rw" "- 102400 51200 51200" 1:0 2:51200 3:51200 4:51200
	t 600 "$kind: limits at each level"		tree "$kind" "$rw" "204800 102400 51200 51200" \
		1:102400 2:51200 3:51200 4:51200
done

sibling() {
	local alone n
	disk4 size=512
	ioband a /dev/nullb0 d 4 0 user weight 0 :100 1000:100:wbps=1048576 1001:100
	one uid:1001 0 --rw=randread
	sleep 0.3
	window 2 ios 1001
	alone=${GOT[0]}
	deep uid:1000 1 --rw=randwrite --iodepth=32
	sleep 2
	window 2 ios 1001
	want_near "one reader beside a limited writer" "${GOT[0]}" "$alone" 1
	# A deep one gets all that the limited one leaves.
	deep uid:1001 2 --rw=randread
	sleep 0.3
	sent_on
	window 2 ios 1000 1001
	sent_off
	kept "the limited one" 1048576 bytes w 1
	n=$((GOT[0] + GOT[1]))
	want_true "$((n >= 4 * alone * 98 / 100))" "together $n, alone $alone"
	stop_loads
}
# Each of its I/Os may wait for the disk.
SLACK=10 GAP_US=5000 t 600 "an unlimited sibling isn't slowed"	sibling

#--- After a pause --------------------------------------------------------------------------

# idle SECONDS KEY=RATE BURST_MS BUCKET SIZE: after that time without I/O a bucket's worth goes
# at once, and nothing more
idle() {
	local seconds=$1 rate=${2#*=} got want rw='read' unit=4
	shift
	[[ $1 != ?iops* ]] || unit=5
	[[ $1 != w* ]] || rw='write'
	fast_disk
	ioband a /dev/nullb0 d 32 0
	msg a limit default "$1" "burst_ms=$2"
	sleep "$seconds"
	sent_on
	deep nobody 0 --rw="$rw" --bs="$4" --iodepth=32 --iodepth_batch_complete_max=32
	sleep 3
	sent_off
	msg a limit default "${1%=*}=max"
	stop_loads
	# The bucket, and the rate from the first I/O to the last.
	read -r got want < <(awk -v rate="$rate" -v bucket="$3" -v unit="$unit" '
		NR == 1 { start = $1 }
		{ sum += $unit; last = $1 }
		END { printf "%d %d\n", sum, bucket + rate * (last - start) }' "$TMP/sent")
	want_near "in all, $1" "$got" "$want" 1
	echo "idle, then $1: $got, wanted $want" >>"$TMP/figures"
}
t 600 "after a pause: the bucket is one largest I/O"	idle 120 rbps=1048576 100 1048576 16k
full t 600 "after a pause: 100 ms"				idle 3 wbps=104857600 100 10485760 256k
full t 600 "after a pause: 2 s"				idle 3 rbps=10485760 2000 20971520 64k
full t 600 "after a pause: 1 ms is no less than an I/O"	idle 3 wbps=20971520 1 1048576 64k
full t 600 "after a pause: I/Os"				idle 3 riops=500 1000 500 4k

#--- Whom a limit must not stop ----------------------------------------------------------------

# The writer never stops; what it dirties in the journal must not wait for its data.
metadata() {
	local i start begin ms most=0 pid a b bytes wanted
	nb nullb0 512 memory_backed=1
	ioband a /dev/nullb0 d 32 0
	mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/a
	mkdir -p /mnt/a
	mount /dev/mapper/a /mnt/a
	sync
	msg a limit default wbps=1048576
	read -r a < <(disk_stat nullb0 write_sectors)
	begin=$(now_ms)
	dd if=/dev/zero of=/mnt/a/foo bs=64k count=320 conv=fdatasync status=none &
	pid=$!
	sleep 2
	for ((i = 1; i <= 5; i++)); do
		start=$(now_ms)
		mkdir "/mnt/a/$i"
		touch "/mnt/a/$i/1"
		sync "/mnt/a/$i"
		ms=$(($(now_ms) - start))
		((ms <= most)) || most=$ms
		sleep 1.7
	done
	echo "mkdir, touch and sync: $most ms at most" >>"$TMP/figures"
	want_true "$((most <= 300))" "mkdir, touch and sync took $most ms beside a limited writer"
	# The metadata is charged, so the limit holds for all together. One I/O may be larger
	# than a bucket; the last, small one waits until all is paid.
	wait "$pid"
	dd_write /mnt/a/last 4k 1
	read -r b < <(disk_stat nullb0 write_sectors)
	bytes=$(((b - a) * 512))
	wanted=$(((($(now_ms) - begin) * 1048576) / 1000))
	echo "all of it: $bytes, wanted $wanted" >>"$TMP/figures"
	want_near "data and metadata together" "$bytes" "$wanted" 2
	umount /mnt/a
}
t 600 "mkdir, touch and sync beside a limited writer"	metadata

suspend_all() {	# OPTION...
	local start ms id
	fast_disk memory_backed=1 size=256
	ioband a /dev/nullb0 d 32 0 user range-bw 0 :0:1 1000:0:0:riops=1:wiops=1 1001:0:0:rbps=1:wbps=1:parent=1000 \
		1002:0:1:parent=1001
	for id in 0 1000 1001 1002; do
		deep "uid:$id" 0 --rw=randrw --bs=16k --iodepth=16
	done
	wait_held 64
	start=$(now_ms)
	dmsetup suspend "$@" a
	ms=$(($(now_ms) - start))
	want_true "$((ms < 100))" "suspend $* took $ms ms"
	want "in flight at the disk" "$(in_flight /dev/nullb0)" 0
	want "held" "$(held_now)" 0
	dmsetup resume a
	wait_held 64
	msg a range-bw default:0:0
	msg a range-bw 1002:0:0
	msg a limit 1000 riops=max wiops=max
	msg a limit 1001 rbps=max wbps=max
	stop_loads
}
t 600 "suspend sends all at once"		suspend_all
t 600 "suspend --noflush gives all back at once" suspend_all --noflush --nolockfs

#--- The disk goes ---------------------------------------------------------------------------

# gone DISK LET...: I/O waits for a limit, and some is at the disk, when that goes; once it is
# let go by this command it fails, and everything goes away
gone() {
	local disk start ms status
	case $1 in
	null_blk)
		nb nullb0 64 irqmode=2 completion_nsec=1000000000 hw_queue_depth=32
		disk=nullb0 ;;
	scsi_debug)
		scsi_debug max_queue=32 || { why "no disk"; return; }
		disk=${REPLY##*/}
		# Only now, or the disk takes minutes to appear.
		echo 999999999 >/sys/bus/pseudo/drivers/scsi_debug/ndelay ;;
	esac
	ioband a "/dev/$disk" d 32 0
	msg a limit default wiops=1 burst_ms=10000
	sleep 10
	run_fio gone --rw=randwrite --bs=4k --iodepth=32 --time_based --runtime=600 --filename=/dev/mapper/a &
	wait_held 22
	msg a limit default wiops=1 wbps=1
	want_true "$(($(in_flight "/dev/$disk") > 0))" "nothing is at the disk"
	case $1 in
	null_blk) within 20 nb_del nullb0 ;;
	scsi_debug) within 20 eval "echo 1 >/sys/block/$disk/device/delete" ;;
	esac || why "deleting the disk failed or hangs"
	start=$(now_ms)
	within 20 "${@:2}" || why "$2 $3 failed or hangs"
	wait -n
	status=$?
	ms=$(($(now_ms) - start))
	want_true "$((status && ms < 1000))" "the load ended with status $status after $ms ms"
	dmsetup resume a 2>/dev/null
	within 20 dmsetup remove --retry a || why "remove failed"
}
for disk in null_blk scsi_debug; do
	t 600 "$disk goes, the limit is lifted"		gone "$disk" dmsetup message a 0 limit default wbps=max wiops=max
	t 600 "$disk goes, suspend"			gone "$disk" dmsetup suspend a
done

forced() {
	local start ms
	fast_disk
	ioband a /dev/nullb0 d 32 0
	msg a limit default rbps=1
	run_fio forced --rw=randread --bs=4k --iodepth=32 --time_based --runtime=600 --filename=/dev/mapper/a &
	wait_held 32
	start=$(now_ms)
	# In use, so it stays, but fails all I/O from now on.
	within 20 dmsetup remove --force a 2>/dev/null
	want_true "$(($? != 124))" "remove --force hangs"
	wait -n && why "the load saw no error"
	ms=$(($(now_ms) - start))
	want_true "$((ms < 1000))" "the load took $ms ms to end"
	within 20 dmsetup remove --retry a 2>/dev/null
	[[ ! -e /dev/mapper/a ]] || why "it is still there"
}
t 600 "remove --force, held by a limit"	forced

[[ ! -s $TMP/figures ]] || diag "$(cat "$TMP/figures")"
done_testing
