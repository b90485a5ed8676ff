# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Loads of users and cgroups, and what each group got. Sourced after tap.sh.

# The disk of most tests: 4 deep, 1 ms for each I/O whatever its size.
disk4() { nb nullb0 256 irqmode=2 completion_nsec=1000000 hw_queue_depth=4 "$@"; }

# One that is faster than any limit in the tests.
fast_disk() { nb nullb0 1024 irqmode=2 completion_nsec=100000 hw_queue_depth=32 "$@"; }

# load AS OPTION...: fio in the background until stop_loads; AS is uid:N, gid:N,
# cgroup:PATH or nobody's. LOADS collects the processes.
LOADS=()
load() {
	local as=$1 pre=()
	case $as in
	uid:*) pre=(setpriv --reuid="${as#*:}" --clear-groups) ;;
	gid:*) pre=(setpriv --regid="${as#*:}" --clear-groups) ;;
	esac
	chmod 666 "$(readlink -f /dev/mapper/a)"
	(
		if [[ $as == cgroup:* ]]; then echo "$BASHPID" >"/sys/fs/cgroup${as#*:}/cgroup.procs"; fi
		exec "${pre[@]}" setsid fio --output=/dev/null --thread --name=load --direct=1 --ioengine=psync \
			--bs=4k --norandommap --time_based --runtime=600 --filename=/dev/mapper/a "${@:2}"
	) &
	LOADS+=($!)
}

stop_loads() {
	kill -INT "${LOADS[@]}"
	wait "${LOADS[@]}"
	LOADS=()
}

# got DEVICE ID COLUMN...: columns of a group in the status, 0 is its id
got() {
	local -a s
	local i c
	read -ra s < <(dmsetup status "$1")
	for ((i = 4; i < ${#s[@]}; i += 7)); do
		[[ ${s[i]} == "$2" ]] || continue
		for c in "${@:3}"; do echo -n "${s[i + c]} "; done
	done
	echo
}

# window SECONDS WHAT ID...: GOT becomes what each group was sent in that time. WHAT
# is ios or bytes; an ID may be DEVICE/ID.
window() {
	local seconds=$1 what=$2 id before=() i=0 r w
	shift 2
	for id; do before+=("$(total "$what" "$id")"); done
	sleep "$seconds"
	GOT=()
	for id; do GOT+=($(($(total "$what" "$id") - before[i++]))); done
}

total() {
	local dev=a id=$2 r w
	[[ $id != ?/* ]] || { dev=${id%%/*}; id=${id#*/}; }
	if [[ $1 == ios ]]; then
		read -r r w < <(got "$dev" "$id" 1 4)
		echo $((r + w))
	else
		read -r r w < <(got "$dev" "$id" 3 6)
		echo $(((r + w) * 512))
	fi
}

# want_parts TOLERANCE WANTED...: of GOT, in 1/10 %
want_parts() {
	local tolerance=$1 sum=0 n i=0 part
	shift
	for n in "${GOT[@]}"; do sum=$((sum + n)); done
	for n; do
		part=$((sum ? GOT[i] * 1000 / sum : 0))
		want_true "$((part >= n - tolerance && part <= n + tolerance))" \
			"group $i got $part/10 %, wanted $n, of ${GOT[*]}"
		i=$((i + 1))
	done
}

# want_near WHAT GOT WANTED TOLERANCE_PERCENT
want_near() {
	want_true "$((($2 - $3) * 100 <= $3 * $4 && ($3 - $2) * 100 <= $3 * $4))" "$1: got $2, wanted $3 within $4 %"
}
