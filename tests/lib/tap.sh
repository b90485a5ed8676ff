# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the test scripts that run in the virtual machine: source this file.
#
# Results come out as TAP. There are two ways to write a test:
#
#   t SECONDS NAME FUNCTION [ARG...]
#	FUNCTION runs in a subshell with a deadline and complains with "want"
#	and "why". Afterwards nothing may be in flight and all disks and devices
#	must go away.
#   ok, is, like, pass, fail
#	one check each, for tables of many small ones.
#
# Every result fails as well if the kernel reported a bug since the last one.
# A script ends with "done_testing"; one that doesn't get there has failed.

# Arguments of a script: --quick for fewer repetitions, --only REGEX for those
# tests of "t" whose name matches.
QUICK='' ONLY=''
while (($#)); do
	case $1 in
	--quick) QUICK=1 ;;
	--only) ONLY=$2; shift ;;
	*) echo "Bail out! unknown argument $1"; exit 2 ;;
	esac
	shift
done
# full COMMAND...: not with --quick; before those tests that differ little from others,
# or do nothing that differs from kernel to kernel
full() { [[ $QUICK ]] || "$@"; }
# times N: how often to repeat
times() { echo $((QUICK ? ($1 + 9) / 10 : $1)); }

TMP=$(mktemp -d)
export TMP
tap_nr=0 tap_failed=0 tap_ended=

#--- The kernel's log --------------------------------------------------------

exec {tap_kmsg}</dev/kmsg
TROUBLE='BUG|WARNING|Oops|Kernel panic|general protection|blocked for more than'
TROUBLE+='|soft lockup|refcount_t|list_(add|del)|KASAN|KFENCE|UBSAN|stalls? on'
TROUBLE+='|scheduling while atomic|sleeping function|Object(s)? remaining'

# klog_read: what the kernel logged since the last call, into KLOG
klog_read() {
	local line
	KLOG=
	while IFS= read -r line; do
		# Of data races those of others aren't for us to mend, see scripts/vm.
		[[ $line != *"KCSAN: "* || $line == *"[dm_ioband]"* ]] || line=${line/BUG: /}
		# "6,342,5140900,-;text"; " KEY=value" may follow
		[[ $line != [0-9]*';'* ]] || KLOG+=${line#*;}$'\n'
	done < <(dd bs=8192 iflag=nonblock <&"$tap_kmsg" 2>/dev/null)
}

# klog_lines GLOB: those lines of KLOG into SAID, their number into SAID_NR
klog_lines() {
	local line
	SAID='' SAID_NR=0
	while IFS= read -r line; do
		# shellcheck disable=SC2053
		[[ $line != $1 ]] || SAID+=${SAID:+$'\n'}$line SAID_NR=$((SAID_NR + 1))
	done <<<"$KLOG"
}

#--- Results -------------------------------------------------------------------

diag() {
	local line
	while IFS= read -r line; do
		printf '# %s\n' "$line"
	done <<<"$1"
}

# result STATUS NAME [DIAGNOSTICS]; no status is success; looks at the kernel's log
result() {
	klog_read
	checked "$@"
}

# checked STATUS NAME [DIAGNOSTICS]; looks at KLOG as it was read before
checked() {
	local status=${1:-0} name=$2 text=${3-}
	if [[ $KLOG =~ $TROUBLE ]]; then
		status=1
		text+=${text:+$'\n'}"the kernel's log: "$KLOG
	fi
	((++tap_nr))
	# A "#" would begin a directive.
	name=${name//#/no.}
	if ((status)); then
		((++tap_failed))
		echo "not ok $tap_nr - $name"
		[[ ! $text ]] || diag "$text"
		return 1
	fi
	echo "ok $tap_nr - $name"
}

pass() { result 0 "$1"; }
fail() { result 1 "$@"; }

# ok NAME COMMAND...
ok() {
	local name=$1 out status=0
	shift
	out=$("$@" 2>&1) || status=$?
	result $((status != 0)) "$name" "$* ended with status $status${out:+: $out}"
}

# is NAME GOT WANTED
is() {
	local status=0
	[[ $2 == "$3" ]] || status=1
	result $status "$1" "got:    $2"$'\n'"wanted: $3"
}

# like NAME GOT REGEX
like() {
	local status=0
	[[ $2 =~ $3 ]] || status=1
	result $status "$1" "got:         $2"$'\n'"wanted like: $3"
}

skip() { echo "ok $((++tap_nr)) - $1 # SKIP $2"; }

bail() {
	tap_ended=1
	echo "Bail out! $*"
	exit 99
}

# done_testing: everything must go away, the module too
done_testing() {
	local left
	left=$(take_away 2>&1; slab_left; within 20 rmmod dm_ioband 2>&1 || echo "rmmod dm_ioband failed")
	result "${left:+1}" "everything is taken away and the module unloads" "$left"
	echo "1..$tap_nr"
	tap_ended=1
	exit $((tap_failed != 0))
}

tap_exit() {
	local status=$?
	[[ $tap_ended ]] || echo "Bail out! the script ended early, with status $status"
	rm -rf "$TMP"
}
trap tap_exit EXIT

#--- Deadlines -------------------------------------------------------------------

# within SECONDS COMMAND...: status 124, and the command killed, if it takes
# longer. Returns even if the command can't be killed. Not the shell's time-out:
# that waits for ever for a process that waits for I/O.
within() {
	local pid clock ended=
	set -m
	( "${@:2}" ) &
	pid=$!
	set +m
	sleep "$1" &
	clock=$!
	wait -n -p ended "$pid" "$clock"
	local status=$?
	if [[ $ended == "$clock" ]]; then
		kill -KILL -- "-$pid" 2>/dev/null
		return 124
	fi
	kill "$clock"
	wait "$clock" 2>/dev/null
	return $status
}

# In a test function: complain, and go on.
why() { echo "$*" >>"$TMP/why"; }

# want WHAT GOT WANTED
want() {
	[[ $2 == "$3" ]] || why "$1: got $2, wanted $3"
}

# want_true ARITHMETIC WHAT_IS_WRONG
want_true() {
	(($1)) || why "$2"
}

# t SECONDS NAME FUNCTION [ARG...]
t() {
	local seconds=$1 name=$2 status=0 left
	[[ $name =~ $ONLY ]] || return
	: >"$TMP/why"
	within "$seconds" "${@:3}" >"$TMP/out" 2>&1 || status=$?
	if ((status == 124)); then
		why "still running after $seconds s"
		# The kernel's log will show who waits where.
		echo w >/proc/sysrq-trigger
	elif ((status)); then
		why "ended with status $status"
	fi
	left=$(within 60 take_away 2>&1) || left+=" (taking all away failed or took too long)"
	[[ ! $left ]] || why "$left"
	if [[ -s $TMP/why ]]; then
		result 1 "$name" "$(cat "$TMP/why"; tail -n 40 "$TMP/out")"
	else
		result 0 "$name"
	fi
	[[ ! $left ]] || bail "can't go on: $left"
}

#--- Disks ---------------------------------------------------------------------------

# nb NAME SIZE_MB [ATTRIBUTE=VALUE...]: a null_blk disk, /dev/NAME
nb() {
	local dir=/sys/kernel/config/nullb/$1 name=$1 a
	[[ -d /sys/module/null_blk ]] || modprobe null_blk nr_devices=0
	mkdir "$dir" || return
	for a in size="$2" submit_queues=1 "${@:3}" power=1; do
		echo "${a#*=}" >"$dir/${a%%=*}" || { echo "null_blk refuses $a"; return 1; }
	done
	[[ -b /dev/$name ]] || { echo "no /dev/$name"; return 1; }
	# The kernel has looked for partitions.
	cat "/sys/block/$name/stat" >"$TMP/stat.$name"
}

nb_del() {
	echo 0 >"/sys/kernel/config/nullb/$1/power"
	rmdir "/sys/kernel/config/nullb/$1"
}

# Disks with a rate of their own: attributes for nb.
# shellcheck disable=SC2034
SLOW=(irqmode=2 completion_nsec=4000000 hw_queue_depth=64)
# shellcheck disable=SC2034
CALM=(irqmode=2 completion_nsec=4000000 hw_queue_depth=4)	# not to wear out the processors
# shellcheck disable=SC2034
FAST=(irqmode=2 completion_nsec=100000 hw_queue_depth=64)

# scsi_debug [PARAMETER...]: a SCSI disk of 64 MB; REPLY becomes its name
scsi_debug() {
	local i d
	modprobe -a sd_mod
	modprobe scsi_debug dev_size_mb=64 "$@" || return
	for ((i = 0; i < 100; i++)); do
		for d in /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*; do
			REPLY=/dev/${d##*/}
			[[ ! -b $REPLY ]] || return 0
		done
		sleep 0.1
	done
	echo "no scsi_debug disk"
	return 1
}

# sysdir DEVICE: REPLY becomes its directory in sysfs
sysdir() {
	local name=${1##*/} d
	REPLY=/sys/block/$name
	if [[ $1 == /dev/mapper/* ]]; then
		for d in /sys/block/dm-*; do
			if [[ $(<"$d/dm/name") == "$name" ]]; then
				REPLY=$d
				return
			fi
		done
	fi
	[[ -d $REPLY ]]
}

sectors() { sysdir "$1" && cat "$REPLY/size"; }

# disk_stat DISK FIELD...: what a disk made by nb counted
disk_stat() {
	local -A place=([reads]=0 [read_sectors]=2 [writes]=4 [write_sectors]=6 [discards]=11 [flushes]=15)
	local -a now first
	local field n values=
	read -ra now <"/sys/block/${1##*/}/stat"
	read -ra first <"$TMP/stat.${1##*/}"
	for field in "${@:2}"; do
		n=${place[$field]}
		values+=" $((now[n] - first[n]))"
	done
	echo "${values# }"
}

in_flight() {
	local r w
	sysdir "$1" && read -r r w <"$REPLY/inflight" && echo $((r + w))
}

# trace_on, trace_off: requests of all disks, in /sys/kernel/tracing/trace. The
# clock gives an order: those of time may give two processors the same instant,
# and then what came of an event can stand before it.
trace_on() {
	local dir=/sys/kernel/tracing
	echo 16384 >$dir/buffer_size_kb
	echo counter >$dir/trace_clock
	echo >$dir/trace
	echo 1 | tee $dir/events/block/block_rq_{issue,complete}/enable >/dev/null
}
trace_off() {
	echo 0 | tee /sys/kernel/tracing/events/block/block_rq_{issue,complete}/enable >/dev/null
}

# most_in_flight: by the trace, and how many requests ended. Exact, other than
# the file inflight, which counts one tag after the other.
most_in_flight() {
	awk '/ block_rq_issue: / { if (++n > most) most = n }
		/ block_rq_complete: / { n--; done++ }
		END { print most + 0, done + 0 }' /sys/kernel/tracing/trace
}

#--- ioband devices --------------------------------------------------------------------

# line DEVICE [DOMAIN [IO_THROTTLE [IO_LIMIT [TYPE [POLICY [TOKEN_BASE [GROUP...]]]]]]]
line() {
	echo "0 $(sectors "$1") ioband $1 ${2-d} ${3-0} ${4-0} ${5-none} ${6-weight} ${7-0} ${*:8}"
}

# ioband NAME DEVICE [...]: as for line; /dev/mapper/NAME
ioband() { dmsetup create "$1" --table "$(line "${@:2}")"; }

# linear NAME DEVICE START SECTORS
linear() { dmsetup create "$1" --table "0 $4 linear $2 $3"; }

msg() { dmsetup message "$1" 0 "${*:2}"; }

# swap_table NAME LINE [OPTION...]: load and make live
swap_table() {
	dmsetup reload "$1" <<<"$2" && dmsetup suspend "${@:3}" "$1" && dmsetup resume "$1"
}

# io_stat NAME FIELD...: what the target counted, of the default group
io_stat() {
	local -A place=([domain]=3 [reads]=5 [reads_held]=6 [read_sectors]=7
		[writes]=8 [writes_held]=9 [write_sectors]=10)
	local -a s
	local field values=
	read -ra s < <(dmsetup status "$1")
	for field in "${@:2}"; do
		values+=" ${s[place[$field]]}"
	done
	echo "${values# }"
}

use_count() { echo "$(</sys/module/dm_ioband/refcnt)"; }

# errno_of TEXT: the error that dmsetup tells of
errno_of() {
	case $1 in
	*"Invalid argument"*) echo EINVAL ;;
	*"Numerical result out of range"*) echo ERANGE ;;
	*"No such file or directory"*) echo ENOENT ;;
	*"No such device or address"*) echo ENXIO ;;
	*"No such device"*) echo ENODEV ;;
	*"Block device required"*) echo ENOTBLK ;;
	*"Device or resource busy"*) echo EBUSY ;;
	*"File exists"*) echo EEXIST ;;
	*"Cannot allocate memory"*) echo ENOMEM ;;
	*"File name too long"*) echo ENAMETOOLONG ;;
	*) echo "none: $1" ;;
	esac
}

# slab_left: memory of the module's that is still allocated, by call site. To
# be seen only where slabs keep track of their users.
slab_left() {
	# "<number> <function that allocated> age=..."; below it, who called that.
	cat /sys/kernel/debug/slab/*/alloc_traces 2>/dev/null | grep -E '\[dm_ioband\].* age='
}

# take_away: all that tests may have made; says what didn't go
take_away() {
	local d i n
	while read -r _ d _; do
		[[ $d != /mnt/* ]] || umount "$d"
	done </proc/mounts
	if [[ $(wc -l </proc/swaps) -gt 1 ]]; then swapoff -a; fi
	# What ended just now may still be about to close its device.
	for ((i = 0; i < 20; i++)); do
		compgen -G "/sys/block/dm-*" >/dev/null || break
		((i == 0)) || sleep 0.1
		for d in /sys/block/dm-*; do
			n=$(in_flight "$d" 2>/dev/null) || continue
			((i < 19 || n == 0)) || echo "$n in flight at $(<"$d/dm/name")"
		done
		dmsetup remove_all >/dev/null 2>&1
	done
	for d in /sys/block/dm-*; do
		[[ ! -e $d ]] || echo "$(<"$d/dm/name") can't be removed"
	done
	if [[ -d /sys/module/loop ]] && compgen -G "/sys/block/loop*/loop" >/dev/null; then losetup -D; fi
	for d in /sys/kernel/config/nullb/*/; do
		[[ ! -d $d ]] || nb_del "$(basename "$d")"
	done
	for d in scsi_debug brd; do
		[[ ! -d /sys/module/$d ]] || rmmod $d
	done
	rm -f "$TMP"/fio.* "$TMP"/stat.*
	if [[ -d /sys/module/dm_ioband && $(use_count) != 0 ]]; then
		echo "dm_ioband has $(use_count) users left"
	fi
}

#--- Load --------------------------------------------------------------------------------

# run_fio NAME OPTION...: says nothing unless it fails
run_fio() {
	start_fio "$@"
	wait_fio "$FIO" "$1"
}

# start_fio NAME OPTION...: in the background; sets FIO to its process
start_fio() {
	# A thread: processes would make sessions of their own, out of reach.
	fio --output="$TMP/fio.$1" --thread --name="$1" --direct=1 --ioengine=libaio "${@:2}" &
	FIO=$!
}

# wait_fio PID NAME: until it ends by itself
wait_fio() {
	wait "$1" && return
	cat "$TMP/fio.$2"
	return 1
}

# end_fio PID NAME: now; fails if it saw an error
end_fio() {
	local i status
	# It ignores the signal until it is ready for it. Not too often: its handler
	# allocates memory, which it must not do while the program does so as well.
	for ((i = 0; i < 300; i++)); do
		if ((i % 50 == 0)); then kill -INT "$1" 2>/dev/null; fi
		kill -0 "$1" 2>/dev/null || break
		sleep 0.1
	done
	wait "$1"
	status=$?
	# 128: ended by the signal
	((status == 0 || status == 128)) && return
	cat "$TMP/fio.$2"
	echo "fio $2 ended with status $status"
	return 1
}

# milliseconds, in the machine's own time
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# dd without words. dd_read DEVICE SIZE COUNT [OPTION...], dd_write likewise
dd_read() { dd if="$1" of=/dev/null bs="$2" count="$3" iflag=direct status=none "${@:4}"; }
dd_write() { dd if=/dev/zero of="$1" bs="$2" count="$3" oflag=direct status=none "${@:4}"; }

modprobe dm-ioband || bail "can't load dm-ioband"
klog_read
