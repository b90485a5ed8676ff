#!/bin/bash
# vm: --icount
#
# Groups below one device: shares by ratio, number of readers, depth and size of the
# I/O; three users and three cgroups; one reader of a cgroup beside the deep queues of
# another; what an I/O costs with a thousand groups.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

RAMP=0.5

# make_groups LINE: a device with what follows its <device> in the table line; sets
# $device.
make_groups() {
	dmsetup create groups --table "0 $sectors ioband /dev/$disk figures $1" || trouble "dmsetup create"
	device=$(dmsetup info -c --noheadings -o blkdevname groups)
	chmod 666 "/dev/$device"
}

# load_as GROUP FIO-OPTION...: GROUP is a user's number or a cgroup's path
loads=()
load_as() {
	local as=$1
	shift
	(
		if [[ $as == /* ]]; then
			echo "$BASHPID" >"/sys/fs/cgroup$as/cgroup.procs"
			as=0
		fi
		exec setpriv --reuid="$as" --clear-groups setsid fio "${fio_common[@]}" \
			--name=job --filename="/dev/$device" "$@"
	) &
	loads+=($!)
}

stop_loads() {
	kill "${loads[@]}"
	wait "${loads[@]}"
	loads=()
}

# read_groups ARRAY GROUP...: what each was sent so far, I/Os
read_groups() {
	local -n counts=$1
	local s i g
	declare -A count
	shift
	read -ra s < <(dmsetup status groups)
	for ((i = 4; i < ${#s[@]}; i += 7)); do
		count[${s[i]}]=$((s[i + 1] + s[i + 4]))
	done
	counts=()
	for g; do counts+=("${count[$g]}"); done
}

# measure_groups SECONDS GROUP...: sets $ios and $sum
measure_groups() {
	local a b i seconds=$1
	shift
	sleep $RAMP
	read_groups a "$@"
	sleep "$seconds"
	read_groups b "$@"
	ios=() sum=0
	for ((i = 0; i < $#; i++)); do
		ios+=($((b[i] - a[i])))
		sum=$((sum + ios[i]))
	done
}

# check_shares TEXT WANTED...: within 0.5 pp
check_shares() {
	local text=$1 i share shares=() off worst=0
	shift
	for ((i = 0; i < $#; i++)); do
		share=$(calc "100 * ${ios[i]} / $sum" 3)
		shares+=("$share")
		off=$(calc "$share - ${*:i + 1:1}" 3)
		worst=$(calc "(${off#-} > $worst) ? ${off#-} : $worst" 3)
	done
	figure "$text" "shares_percent=${shares[*]}" "off_pp=$worst"
	check "$text: shares within 0.5 pp" "w <= 0.5" "w=$worst"
}

#--- Ratios ---------------------------------------------------------------------------

# ratio DEPTH NS THRESHOLD N SIZE WINDOW WEIGHT...
ratio() {
	local depth=$1 ns=$2 throttle=$3 n=$4 size=$5 window=$6 w all=0 users=() wanted=() words='' i=0
	shift 6
	for w; do all=$((all + w)); done
	for w; do
		users+=($((1000 + i)))
		words+=" $((1000 + i)):$w"
		wanted+=("$(calc "100 * $w / $all" 4)")
		i=$((i + 1))
	done
	make_disk "$depth" "$ns"
	make_groups "$throttle 0 user weight 0$words"
	for w in "${users[@]}"; do load_as "$w" --rw=randread --numjobs="$n" --bs="$size"; done
	measure_groups "$window" "${users[@]}"
	stop_loads
	remove_devices
	remove_disk
	check_shares "$*, $n readers each of $size, disk $depth deep" "${wanted[@]}"
}

for weights in "1 1" "1 2" "1 9" "1 2 7"; do
	# shellcheck disable=SC2086
	for n in 1 8 32; do ratio 1 2000000 1 $n 4k 6 $weights; done
done
# More readers than the 99 times of the disk's depth that its share takes.
ratio 1 1000000 1 8 4k 10 1 99
ratio 4 1000000 4 8 512 3 1 9
ratio 4 1000000 4 8 1m 3 1 9
ratio 16 2000000 16 32 4k 3 1 2
ratio 64 4000000 64 128 4k 2 1 2

#--- Three users, three cgroups ---------------------------------------------------------

mkdir /sys/fs/cgroup/{p,q,r} || trouble "no cgroups"

# three TYPE GROUP GROUP GROUP: 40:20:10, the third one reads or writes
three() {
	local type=$1 rw
	shift
	make_disk 4 1000000
	for rw in "randread randread" "randwrite randwrite" "randread randwrite"; do
		make_groups "4 0 $type weight 0 $1:40 $2:20 $3:10"
		load_as "$1" --rw="${rw% *}" --numjobs=100
		load_as "$2" --rw="${rw% *}" --numjobs=100
		load_as "$3" --rw="${rw#* }" --numjobs=100
		measure_groups 3 "$@"
		stop_loads
		remove_devices
		check_shares "40:20:10 by $type, 100 jobs each, ${rw% *}, the third ${rw#* }" 57.143 28.571 14.286
	done
	remove_disk
}
three user 1000 1001 1002
three cgroup /p /q /r

#--- Latency ------------------------------------------------------------------------------

report=/tmp/fio.json
deep=(--rw=randread --bs=64k --ioengine=libaio --iodepth=128 --numjobs=8 --group_reporting)

# reader DEVICE: a reader in /p for 4 s; sets $p99 in ms
reader() {
	(
		echo "$BASHPID" >/sys/fs/cgroup/p/cgroup.procs
		exec fio --direct=1 --ioengine=libaio --norandommap --randrepeat=1 --time_based --runtime=4 \
			"${fio_latency[@]}" --output=$report --name=reader --filename="/dev/$1" --rw=randread --bs=4k \
			--iodepth=1
	) || trouble "fio failed"
	read_latency $report reader
}

make_disk 4 1000000
reader "$disk"
alone=$p99

device=$disk
load_as /q "${deep[@]}"
sleep 1
reader "$disk"
bare=$p99
stop_loads

make_groups "4 0 cgroup weight 0 /p:1000 /q:100"
load_as /q "${deep[@]}"
sleep 1
reader "$device"
stop_loads
remove_devices
remove_disk
figure "reader of a cgroup of 1000 beside 8 jobs of 64 KiB at depth 128 of a cgroup of 100" \
	"p99_ms=$p99" "alone_ms=$alone" "no_control_ms=$bare" "p99_factor=$(calc "$p99 / $alone" 3)"
check "P99 of the reader at most 1.2 times its P99 alone" "p <= 1.2 * a" "p=$p99" "a=$alone"

#--- A thousand groups ----------------------------------------------------------------------

# ten LINE USER...: a job of each of ten users; sets $iops. The disk is so fast that the
# processor is the limit; with one I/O at a time nearly all I/O is held.
ten() {
	local u line=$1
	shift
	make_groups "$line"
	for u; do load_as "$u" --rw=randread --ioengine=libaio --iodepth=8; done
	sleep $RAMP
	measure 1 "$device"
	stop_loads
	remove_devices
}

words=
for ((i = 10001; i <= 11000; i++)); do words+=" $i:100"; done
make_disk 128 10000
ten "1 0 user weight 0 10001:100 10002:100" 1000{1,2,1,2,1,2,1,2,1,2}
two=$iops
ten "1 0 user weight 0$words" 10001 10101 10201 10301 10401 10501 10601 10701 10801 10901
remove_disk
figure "ten jobs held behind one I/O in flight" "two_groups_iops=$two" "thousand_groups_iops=$iops" \
	"cost_factor=$(calc "$two / $iops" 3)"
check "a thousand groups, ten busy: an I/O costs at most 1.1 times that of two" \
	"two <= 1.1 * thousand" "two=$two" "thousand=$iops"

figures_done
