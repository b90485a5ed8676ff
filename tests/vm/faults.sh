#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# takes: 170
#
# Without memory nothing changes; operations in any order, also by two at once,
# and limits that never stay lose no I/O. The order is random: "SEED=N" in
# scripts/vm --append repeats one.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh

#--- No memory ------------------------------------------------------------------------

FAULTS=(/sys/kernel/debug/failslab /sys/kernel/debug/fail_page_alloc)

# inject_in START END: only allocations with a caller at these addresses can fail.
# Each is one that counts for /proc/self/fail-nth. Those that kmemleak makes on its
# own would only be tedious: it has a reserve.
inject_in() {
	local d setting
	for d in "${FAULTS[@]}"; do
		for setting in probability=0 verbose=0 ignore-gfp-wait=N ignore-gfp-highmem=N min-order=0 cache-filter=N \
			times=1000000000 stacktrace-depth=32 require-start="$1" require-end="$2" \
			reject-start="${RANGE[__alloc_object]:-0}" reject-end="${RANGE[__alloc_object.end]:-0}"; do
			[[ ! -e $d/${setting%%=*} ]] || echo "${setting#*=}" >"$d/${setting%%=*}"
		done
	done
}

# Whatever device-mapper's ioctls allocate, ours included.
inject_in_dm() { inject_in "${RANGE[dm_ctl_ioctl]}" "${RANGE[dm_ctl_ioctl.end]}"; }

# What the module allocates only.
inject_in_module() {
	local start size
	read -r start </sys/module/dm_ioband/sections/.text
	read -r size </sys/module/dm_ioband/coresize
	inject_in "$start" "$(printf '0x%x' $((start + size)))"
}

# Addresses of functions. Read once, that takes long.
declare -A RANGE
find_functions() {
	local address name last=''
	# What comes next ends a function.
	while read -r address _ name; do
		[[ ! $last ]] || RANGE[$last.end]=0x$address
		RANGE[$name]=0x$address last=$name
	done < <(grep --no-group-separator -A 1 -E ' (dm_ctl_ioctl|__alloc_object)$' /proc/kallsyms)
}

injections_left() {
	local d n
	LEFT=0
	for d in "${FAULTS[@]}"; do
		[[ ! -e $d/times ]] || { read -r n <"$d/times"; LEFT=$((LEFT + n)); }
	done
}

# Tables, live and loaded, and what else would show that something is left.
state() {
	dmsetup table
	dmsetup info -c --noheadings -o name,attr
	echo "users of the module: $(use_count)"
	grep -hs '^ioband/' /proc/[0-9]*/comm
}

# starve UNDO COMMAND...: COMMAND, whose first allocation fails, then its second and
# so on, until there are no more. Then it succeeds; UNDO takes that back.
starve() {
	local undo=$1 n left out status failed=0 before tables users=
	shift
	before=$(state)
	tables=$(dmsetup table)
	read -r users </sys/module/dm_ioband/refcnt
	for ((n = 1; n < 1000; n++)); do
		injections_left
		left=$LEFT status=0
		# Survives exec, but not fork.
		out=$(echo "$n" >/proc/self/fail-nth; exec "$@" 2>&1) || status=$?
		injections_left
		if ((status == 0)); then
			eval "$undo" || { why "$*: after number $n: $undo failed"; return; }
		else
			((++failed))
			[[ $out == *"Cannot allocate memory"* ]] || why "$*: number $n: $out"
			want "$*: number $n: tables" "$(dmsetup table)" "$tables"
			want "$*: number $n: users of the module" "$(</sys/module/dm_ioband/refcnt)" "$users"
		fi
		((left != LEFT)) || break
	done
	want "$*: status when all memory is there" "$status" 0
	want "$*: state afterwards" "$(state)" "$before"
	want_true "$((n > 1))" "$*: no allocation"
	echo "$*: $failed of $((n - 1)) failed"
}

starve_tables() {
	local table
	nb nullb0 64
	ioband a /dev/nullb0 d 4 50 user weight 0 :100 1000:100 1001:100:parent=1000
	inject_in_module
	table=$(line /dev/nullb0 e 0 0 user range-bw 0 :0:0 1000:1:2:rbps=5000 1001:0:0:parent=1000)
	starve "dmsetup remove c" dmsetup create c --table "$table"
	table=$(line /dev/nullb0 d 0 0 cgroup weight 0 :10 /:20:wiops=7)
	starve "dmsetup remove c" dmsetup create c --table "$table"
	# What fails after our part is done, too.
	inject_in_dm
	table=$(line /dev/nullb0 d 4 50 user weight 0 :7 1000:8 1002:9:parent=1000)
	starve "dmsetup clear a" dmsetup reload a --table "$table"
	dmsetup suspend a
	dmsetup reload a --table "$(dmsetup table a)"
	starve "dmsetup suspend a && dmsetup reload a --table '$(dmsetup table a)'" dmsetup resume a
	dmsetup resume a
	dd_read /dev/mapper/a 4k 4 || why "read failed"
}

# starve_message DEVICE MESSAGE UNDO
starve_message() {
	# shellcheck disable=SC2086
	starve "${3:+msg $1 $3}" dmsetup message "$1" 0 $2
}

starve_messages() {
	nb nullb0 64
	mkdir -p /sys/fs/cgroup/one/two
	ioband a /dev/nullb0 d 0 0 user weight 0 :100 1000:100 1001:100:parent=1000
	ioband n /dev/nullb0 d
	ioband r /dev/nullb0 r 0 0 user range-bw 0 :0:0 1000:0:0
	ioband g /dev/nullb0 g 0 0 cgroup weight 0 :100 /one/two:100
	inject_in_dm
	starve_message a "attach 1002" "detach 1002"
	starve_message a "attach 1002:50:rbps=100000:wiops=50:burst_ms=5:parent=1001" "detach 1002"
	starve_message a "detach 1001" "attach 1001:100:parent=1000"
	starve_message g "attach /one" "detach /one"
	starve_message a "limit 1000 rbps=5000 burst_ms=50" "limit 1000 rbps=max burst_ms=100"
	starve_message a "parent 1001 none" "parent 1001 1000"
	starve_message a "weight 1001:70" "weight 1001:100"
	starve_message r "range-bw 1000:10:100" "range-bw 1000:0:0"
	starve_message n "type user" "type none"
	starve_message a "policy weight-iosize" "policy weight"
	starve_message a "io_throttle 7" "io_throttle 0"
	starve_message a "io_limit 500" "io_limit 0"
	starve_message a "token 5" "token 0"
	starve_message a "carryover 5" "carryover 1"
	starve_message a reset ""
	starve_message a stats ""
	starve "" dmsetup status a
	dmsetup remove_all
	rmdir /sys/fs/cgroup/one/two /sys/fs/cgroup/one
}

if [[ -d ${FAULTS[0]} && -e /proc/self/make-it-fail ]]; then
	find_functions
	t 600 "no memory: tables" starve_tables
	t 600 "no memory: messages" starve_messages
else
	skip "no memory: tables" "the kernel can't make allocations fail"
	skip "no memory: messages" "the kernel can't make allocations fail"
fi

#--- Random operations ----------------------------------------------------------------

: "${SEED:=$((${EPOCHREALTIME/./} % 1000000000))}"
diag "SEED=$SEED"

USERS=(1000 1001 1002 1003)
ALONE='' WHO='' OPS=0

pick() { REPLY=${*:RANDOM % $# + 1:1}; }

# attempt ERRNO COMMAND...: ERRNO as it must come out if nobody else is at work, or
# "" for success. LAST becomes the errno.
attempt() {
	local wanted=$1 out
	shift
	LAST=
	((++OPS))
	out=$(exec "$@" 2>&1) || LAST=$(errno_of "$out")
	if [[ $LAST != "$wanted" ]] && [[ $ALONE || ! $LAST =~ ^(|EINVAL|ENOENT|EEXIST|EBUSY)$ ]]; then
		why "shell $WHO, number $OPS: $*: ${LAST:-success} instead of ${wanted:-success};" \
			"$DEV: $POLICY $TYPE $THROTTLE $LIMIT ${IDS[*]}"
	fi
}

send() { attempt "$1" dmsetup message "$DEV" 0 "${@:2}"; }

# refused ERRNO MESSAGE...: wrong whatever the state
refused() {
	local table
	table=$(dmsetup table "$DEV")
	send "$@"
	[[ $LAST ]] || why "accepted: ${*:2}"
	[[ ! $ALONE ]] || want "table after ${*:2}" "$(dmsetup table "$DEV")" "$table"
}

# look DEVICE: its settings and groups
declare -A ABOVE
look() {
	local w group
	DEV=$1 IDS=() ABOVE=()
	read -ra w < <(dmsetup table "$1")
	THROTTLE=${w[5]} LIMIT=${w[6]} TYPE=${w[7]} POLICY=${w[8]}
	for group in "${w[@]:11}"; do
		IDS+=("${group%%:*}")
		[[ $group != *:parent=* ]] || ABOVE[${group%%:*}]=${group##*:parent=}
	done
}

known() { [[ " default ${IDS[*]} " == *" $1 "* ]]; }

# params: random ones of a group
params() {
	case $POLICY in
	range-bw) REPLY=$((RANDOM % 100)):$((RANDOM + 100)) ;;
	*) REPLY=$((RANDOM % 1000 + 1)) ;;
	esac
}

# key: a random limit; not so small that the kernel takes an I/O for hung
key() {
	local word
	pick rbps wbps riops wiops burst_ms
	word=$REPLY
	case $word in
	?bps) pick max max 200000 500000 2000000 ;;
	?iops) pick max max 20 50 200 ;;
	burst_ms) pick 1 10 100 1000 ;;
	esac
	REPLY=$word=$REPLY
}

# go_live DEVICE: resume. If another shell changed the domain since the table was
# loaded, that is refused, and the device is stuck until it gets a table that fits.
go_live() {
	local i other=a
	attempt "" dmsetup resume "$1"
	[[ $LAST ]] || return
	[[ $1 != a ]] || other=b
	for ((i = 0; i < 50; i++)); do
		look "$other"
		dmsetup reload "$1" --table "$(line "/dev/mapper/low$1" d 0 0 user "$POLICY" 0)" 2>/dev/null
		dmsetup resume "$1" 2>/dev/null && return
	done
	why "$1 can't be resumed"
}

restart() {	# [LINE]
	local how=()
	if [[ ${1-} ]]; then
		attempt "" dmsetup reload "$DEV" --table "$1"
		[[ ! $LAST ]] || return
	fi
	((RANDOM % 2)) || how=(--noflush)
	attempt "" dmsetup suspend "${how[@]}" "$DEV"
	# Messages don't wait for a suspended device.
	((RANDOM % 2)) || send "" stats
	go_live "$DEV"
}

operation() {
	local id other up n wanted=
	pick a b
	look "$REPLY"
	pick default "${USERS[@]}"
	id=$REPLY
	pick "${USERS[@]}"
	other=$REPLY
	case $((RANDOM % 22)) in
	0|1)	known "$id" || wanted=ENOENT
		[[ $POLICY != range-bw ]] || wanted=EINVAL
		send "$wanted" weight "$id:$((RANDOM % 1000 + 1))" ;;
	2|3)	known "$id" || wanted=ENOENT
		[[ $POLICY == range-bw ]] || wanted=EINVAL
		send "$wanted" range-bw "$id:$((RANDOM % 100)):$((RANDOM + 100))" ;;
	4|5|6)	known "$id" || wanted=ENOENT
		key
		send "$wanted" limit "$id" "$REPLY" ;;
	7|8)	pick "${USERS[@]}"
		id=$REPLY
		((RANDOM % 4)) || other=none
		known "$id" && { known "$other" || [[ $other == none ]]; } || wanted=ENOENT
		up=$other
		while [[ ! $wanted && $up && $up != none ]]; do
			[[ $up != "$id" ]] || wanted=EINVAL
			up=${ABOVE[$up]-}
		done
		send "$wanted" parent "$id" "$other" ;;
	9|10|11)	pick "${USERS[@]}"
		id=$REPLY n=$id
		! known "$id" || wanted=EEXIST
		[[ $TYPE != none ]] || wanted=EINVAL
		if ((RANDOM % 2)); then params; n+=:$REPLY; fi
		if ((RANDOM % 2)); then key; n+=:$REPLY; fi
		if known "$other" && [[ $other != "$id" ]]; then n+=:parent=$other; fi
		send "$wanted" attach "$n" ;;
	12)	known "$other" || wanted=ENOENT
		send "$wanted" detach "$other" ;;
	13)	pick user user uid gid none
		[[ ${REPLY/uid/user} == "$TYPE" || ! ${IDS[*]} ]] || wanted=EBUSY
		send "$wanted" type "$REPLY" ;;
	14)	pick weight weight-iosize range-bw "weight $RANDOM"
		# shellcheck disable=SC2086
		send "" policy $REPLY ;;
	15)	pick "token 0" "token $RANDOM" "carryover $((RANDOM % 3))" reset stats
		# shellcheck disable=SC2086
		send "" $REPLY
		attempt "" dmsetup status "$DEV" ;;
	16)	pick 0 1 4 64
		((!LIMIT || REPLY <= LIMIT)) || wanted=EINVAL
		send "$wanted" io_throttle "$REPLY" ;;
	17)	pick 0 1 8 100
		((!REPLY || THROTTLE <= REPLY)) || wanted=EINVAL
		send "$wanted" io_limit "$REPLY" ;;
	18)	restart ;;
	19)	n=$(dmsetup table "$DEV")
		params
		((RANDOM % 2)) || n=$(sed -E "s/ :[0-9]+(:[0-9]+)?/ :$REPLY/" <<<"$n")
		restart "$n" ;;
	20)	# A device of the shell's own.
		if [[ -e /dev/mapper/c$WHO ]]; then
			attempt "" dmsetup remove "c$WHO"
		else
			attempt "" dmsetup create "c$WHO" --table "$(line /dev/mapper/lowc d 0 0 user "$POLICY" 0)"
			[[ $LAST ]] || dd_read "/dev/mapper/c$WHO" 4k 4 || why "read of c$WHO failed"
		fi ;;
	21)	case $((RANDOM % 18)) in
		0) refused EINVAL frobnicate ;;
		1) refused EINVAL weight ;;
		2) refused ERANGE limit default rbps=0 ;;
		3) refused EINVAL limit default rbps=5 rbps=6 ;;
		4) refused ENOENT limit 4242 rbps=5 ;;
		5) refused EINVAL limit default parent=1000 ;;
		6) refused EINVAL parent default none ;;
		7) refused EINVAL detach default ;;
		8) refused ENOENT detach 4242 ;;
		9) refused EINVAL attach default ;;
		10) refused EINVAL type frobnicate ;;
		11) refused EINVAL policy frobnicate ;;
		12) refused ERANGE policy weight 4294967296 ;;
		13) refused EINVAL token x ;;
		14) refused ERANGE carryover 4294967296 ;;
		15) refused ERANGE io_throttle 1048577 ;;
		16) refused ERANGE io_limit 1048577 ;;
		17) refused ENOENT stats 4242 ;;
		esac ;;
	esac
}

# operations WHO SECONDS LEAST: for some time, but not less than a number of them
operations() {
	local end
	WHO=$1 RANDOM=$((SEED + $1)) OPS=0
	end=$((${EPOCHREALTIME/./} + $2 * 1000000))
	while ((OPS < $3 || ${EPOCHREALTIME/./} < end)); do operation; done
	echo "shell $1: $OPS operations"
}

# wait_reads DEVICE: until the load is there
wait_reads() {
	local i
	for ((i = 0; i < 300; i++)); do
		(($(io_stat "$1" reads) == 0)) || return 0
		sleep 0.1
	done
	why "nothing of $1 is read"
}

# lift DEVICE: all of its limits
lift() {
	local id
	look "$1"
	for id in default "${IDS[@]}"; do
		msg "$1" limit "$id" rbps=max wbps=max riops=max wiops=max || why "limits of $id can't be lifted"
	done
}

random_operations() {
	local third jobs=() d n=0 one two
	nb nullb0 96 memory_backed=1 irqmode=2 completion_nsec=10000000 hw_queue_depth=4
	third=$(($(sectors /dev/nullb0) / 3))
	for d in a b c; do linear "low$d" /dev/nullb0 $((n++ * third)) "$third"; done
	for d in a b; do
		ioband "$d" "/dev/mapper/low$d" d 0 0 user weight 0 :100
		chmod 666 "$(readlink -f "/dev/mapper/$d")"
		# Little data, to come round to what was written under other settings;
		# and the processors are there for the operations.
		start_fio "$d" --filename="/dev/mapper/$d" --uid="${USERS[n++ % 2]}" --nice=19 --rw=randrw \
			--bsrange=4k-16k --size=1m --iodepth=8 --verify=crc32c --verify_fatal=1 --verify_backlog=32 \
			--verify_state_save=0 --loops=10000 --time_based --runtime=600
		jobs+=("$FIO")
		start_fio "read$d" --filename="/dev/mapper/$d" --uid="${USERS[n % 2 + 1]}" --nice=19 --rw=randread \
			--bsrange=4k-16k --iodepth=4 --time_based --runtime=600
		jobs+=("$FIO")
	done
	wait_reads a && wait_reads b || return
	ALONE=1
	operations 0 $((QUICK ? 3 : 12)) "$(times 100)"
	ALONE=
	operations 1 $((QUICK ? 2 : 8)) "$(times 40)" & one=$!
	operations 2 $((QUICK ? 2 : 8)) "$(times 40)" & two=$!
	wait "$one" || why "the first shell failed"
	wait "$two" || why "the second shell failed"
	for d in a b; do
		go_live "$d"
		lift "$d"
	done
	msg a policy weight || why "policy can't be set"
	msg a io_throttle 0 && msg a io_limit 0 || why "settings can't be made automatic"
	sleep 2
	for d in a reada b readb; do
		end_fio "${jobs[0]}" "$d" || why "fio $d failed"
		jobs=("${jobs[@]:1}")
	done
	[[ $(msg a stats) == *" inflight=0 held=0 groups="* ]] || why "not all is done: $(msg a stats)"
	want "in flight at the disk" "$(in_flight /dev/nullb0)" 0
	dmsetup remove a && dmsetup remove b || why "a or b can't be removed"
}
t 500 "random operations under load" random_operations

#--- A file system --------------------------------------------------------------------

# Limits, weights and thresholds ten times a second, until killed.
wobble() {
	local n
	RANDOM=$SEED
	for ((n = 0; ; n++)); do
		key
		msg a limit "$((n % 2 * 1000))" "$REPLY" || why "limit $REPLY"
		msg a weight "$((n % 2 * 1000)):$((RANDOM % 1000 + 1))" || why "weight"
		((n % 5)) || msg a io_throttle $((RANDOM % 16 + 1)) || why "io_throttle"
		sleep 0.1
	done
}

# Files come and go, until $TMP/enough; those that are left are listed with sums.
make_files() {
	local n file
	RANDOM=$SEED
	cd /mnt/fs/tree || return
	for ((n = 0; ; n++)); do
		[[ ! -e $TMP/enough ]] || ((n < $(times 40))) || break
		file=$((n % 7))/$((RANDOM % 40))
		mkdir -p $((n % 7))
		case $((RANDOM % 4)) in
		0) rm -f "$file" ;;
		1) [[ ! -e $file ]] || mv "$file" "$((RANDOM % 7))-$((RANDOM % 40))" ;;
		*) seq "$n" $((n + RANDOM / 8)) >"$file" ;;
		esac
		((n % 10)) || sync "$file" 2>/dev/null || sync .
	done
	echo "$n changes of files"
	find . -type f -exec sha256sum {} + >"$TMP/sums"
}

file_system() {
	local wobbler files
	nb nullb0 200 memory_backed=1 "${CALM[@]}"
	ioband a /dev/nullb0 d 0 0 user weight 0 :100 0:100 1000:100
	mkfs.ext4 -qF /dev/mapper/a || why "mkfs failed"
	mkdir -p /mnt/fs
	mount /dev/mapper/a /mnt/fs || { why "mount failed"; return; }
	mkdir /mnt/fs/{tree,verify}
	chown 1000 /mnt/fs/verify
	wobble & wobbler=$!
	make_files & files=$!
	start_fio v --directory=/mnt/fs/verify --uid=1000 --nice=19 --create_on_open=1 --rw=randwrite \
		--bsrange=4k-64k --size=2m --nrfiles=4 --iodepth=4 --fsync=32 --verify=crc32c --verify_fatal=1 \
		--verify_backlog=32 --verify_state_save=0 --loops=10000 --time_based --runtime=600
	sleep $((QUICK ? 5 : 10))
	touch "$TMP/enough"
	wait "$files" || why "making files failed"
	end_fio "$FIO" v || why "fio failed"
	umount /mnt/fs || why "umount failed"
	kill "$wobbler"
	wait "$wobbler" 2>/dev/null
	e2fsck -fn /dev/mapper/a || why "the file system is damaged"
	msg a limit 0 rbps=max riops=max
	mount -o ro /dev/mapper/a /mnt/fs || why "second mount failed"
	(cd /mnt/fs/tree && sha256sum --quiet -c "$TMP/sums") || why "files have changed"
	umount /mnt/fs
}
t 300 "ext4 under limits that change all the time" file_system

done_testing
