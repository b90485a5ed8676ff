#!/bin/bash
# vm: --icount
#
# The automatic threshold, nothing set: readers on disks that do 1, 4, 32 and 128 I/Os
# at a time, or so many bytes a second, or that change their speed; two devices of
# weights 200 and 100, and one alone. The shares, the sum against the same load without
# control, and the depth that was found.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

# found: prints the threshold that was found.
found() {
	dmsetup message share1 0 stats | sed -n 's/.* io_throttle=\([0-9]*\),auto .*/\1/p'
}

# verdict TEXT CONTENDED: of $ios, $iops, $bare.
verdict() {
	local share sum
	share_and_sum "$bare"
	figure "$1" "share_percent=$share" "iops=$iops" "bare_iops=$bare" "sum_percent=$sum" "depth=$(found)"
	(($2)) && check "$1: share within 1 pp of 66.67 %" "s >= 65.67 && s <= 67.67" "s=$share"
	check "$1: at least 99 % of no control" "s >= 99" "s=$sum"
}

# bare N WINDOW [FIO-OPTION...]: sets $bare to what N readers and N more do on $disk.
bare() {
	local n=$1 window=$2
	shift 2
	start_load "$disk" randread "$n" "$@" -- "$disk" randread "$n" "$@"
	settle 1
	measure "$window" "$disk"
	stop_load
	bare=$iops
}

# readers N [FIO-OPTION...]: on both devices. The depth is to be found within a second.
readers() {
	local n=$1
	shift
	make_ioband 0 200 100
	start_load "${devices[0]}" randread "$n" "$@" -- "${devices[1]}" randread "$n" "$@"
	sleep 1
}

# make_below: a device between $disk and those of ioband; sets $disk to it.
make_below() {
	dmsetup create below --table "0 $sectors linear /dev/$disk 0" || trouble "dmsetup create"
	disk=mapper/below
}

# row DEPTH NS N WINDOW
row() {
	make_disk "$1" "$2"
	bare "$3" "$4"
	readers "$3"
	measure "$4" "${devices[@]}"
	# Fewer jobs than the disk takes at a time don't contend.
	verdict "disk $1 deep, $3 readers each" "$((2 * $3 > $1))"
	stop_load
	remove_devices
	remove_disk
}

row 1 4000000 1 4
row 1 4000000 16 4
row 4 1000000 1 2
row 4 1000000 4 2
row 4 1000000 16 2
row 32 2000000 16 1
row 32 2000000 64 1
row 128 8000000 128 2

# What limits is bytes a second. null_blk gives them out in steps of 20 ms.
make_disk 64 100000 40
bare 16 4 --bs=64k
readers 16 --bs=64k
measure 4 "${devices[@]}"
verdict "disk of 40 MB/s, 16 readers of 64 KiB each" 1
stop_load
remove_devices
remove_disk

# A logical volume: the device below is no queue and tells no nr_requests, and the queue
# of the disk has no place for more than it works on. Who submits sleeps for one.
make_disk 8 8000000
bare 1 4 --ioengine=libaio --iodepth=32
make_below
readers 1 --ioengine=libaio --iodepth=32
# A slow one.
sleep 1
measure 8 "${devices[@]}"
verdict "dm-linear over a queue of 8 places" 1
stop_load
remove_devices
remove_disk

# switch DISK: to what lies below the ioband devices, from now on.
switch() {
	dmsetup suspend --nolockfs below && dmsetup load below --table "0 $sectors linear /dev/$1 0" &&
		dmsetup resume below || trouble "dmsetup"
}

# The disk becomes four times as slow, and as fast again.
make_disk 4 4000000 0 slow
slow=$disk
bare 16 2
slow_bare=$bare
make_disk 4 1000000 0 fast
fast=$disk
bare 16 2
fast_bare=$bare
make_below
readers 16
switch "$slow"
sleep 1
measure 2 "${devices[@]}"
bare=$slow_bare
verdict "disk 4 deep, four times as slow in mid-run" 1
switch "$fast"
sleep 1
measure 2 "${devices[@]}"
bare=$fast_bare
verdict "disk 4 deep, four times as fast in mid-run" 1
stop_load
remove_devices
remove_named_disk slow
remove_named_disk fast

# The depth for a group alone isn't in force for a second one, from its first I/O on:
# what was found for several is, which on so slow a disk isn't much within the time
# until the first one counts as alone.
make_disk 32 40000000
make_ioband 0 200 100
start_load "${devices[0]}" randread 1 --ioengine=libaio --iodepth=64
sleep 15
alone=$(found)
stop_load
# Now there is room, and I/O passes without a look at what others do.
start_load "${devices[0]}" randread 1 --ioengine=libaio --iodepth=16
sleep 1
dd if="/dev/${devices[1]}" of=/dev/null bs=4k count=1 iflag=direct status=none || trouble "dd"
several=$(found)
figure "a group alone" "depth=$alone" "depth_of_several=$several"
check "a group alone: the depth of the disk is found" "d >= 30 && d <= 40" "d=$alone"
check "a group alone: the depth is another with a second one" "d < 16" "d=$several"
stop_load
remove_devices
remove_disk

figures_done
