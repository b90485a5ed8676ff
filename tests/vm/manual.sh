#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# takes: 150
#
# The manual page: its examples work and print what it says, and each of its
# errors comes, with a line in the kernel's log.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh

PAGE=../../dm-ioband.4
[[ -s $PAGE ]] || bail "no $PAGE"

# A disk with two partitions of 32 MB, as the examples have it. 65536 and 2
# blocks around them.
sdb() {
	nb sdb 80 memory_backed=1 || return
	sfdisk -q /dev/sdb <<<$'start=2048,size=65536\nsize=65536\n' || return
	[[ -b /dev/sdb1 && -b /dev/sdb2 ]]
}

#--- The examples --------------------------------------------------------------

# A line for each thing under EXAMPLES: "S" and the title of an example, "C" and
# a command, "O" and a line that it prints.
awk '
	/^\.Sh / { inside = $2 == "EXAMPLES" }
	!inside { next }
	/^\.Ss / { print "S" substr($0, 5) }
	/^\.Bd -literal/ { literal = 1; next }
	/^\.Ed/ { literal = 0; next }
	literal {
		gsub(/\\-/, "-")
		gsub(/\\e/, "\\")
		line = part $0
		if (line ~ /\\$/) {
			part = substr(line, 1, length(line) - 1)
			next
		}
		part = ""
		if (line ~ /^# /)
			print "C" substr(line, 3)
		else
			print "O" line
	}' "$PAGE" >"$TMP/examples"

# dmsetup as the examples call it: the table of a new device must be the line
# that it was created from.
dmsetup() {
	command dmsetup "$@" || return
	[[ $1 == create && ${3-} == --table ]] || return 0
	local words
	read -ra words <<<"$4"
	words[3]=$(<"/sys/class/block/${words[3]##*/}/dev")
	want "table of $2" "$(command dmsetup table "$2")" "${words[*]}"
}

# mask COMMAND: what it printed, from stdin, without the numbers that vary
mask() {
	case $1 in
	*"dmsetup table"*)
		sed -E 's/^0 [0-9]+ ioband [0-9]+:[0-9]+ /0 N ioband N:N /' ;;
	*"dmsetup status"*)
		awk '{
			$2 = "N"
			# Of seven words for each group all but the id.
			for (i = 5; i <= NF; i++)
				if ((i - 5) % 7 && $i ~ /^[0-9]+$/)
					$i = "N"
			print
		}' ;;
	*)
		sed -E 's/\b(inflight|held|debt|[rw][dr]_(ios|bytes)|wait_us_(total|max)|rounds|idles)=[0-9]+/\1=N/g
			s/:[0-9]+(,| )/:N\1/g' ;;
	esac
}

# run COMMAND WANTED_OUTPUT
run() {
	local status
	# To a file: in a subshell it could set no variable and start no job.
	eval "$1" >"$TMP/printed" 2>&1
	status=$?
	((status == 0)) || why "# $1: status $status: $(<"$TMP/printed")"
	want "# $1" "$(mask "$1" <"$TMP/printed")" "$(mask "$1" <<<"$2")"
}

# reload_all: the table that each device prints can be loaded and prints the same
reload_all() {
	local dev line
	while read -r dev _; do
		line=$(command dmsetup table "$dev")
		swap_table "$dev" "$line" || why "$dev: its own table is refused: $line"
		want "table of $dev, loaded again" "$(command dmsetup table "$dev")" "$line"
	done < <(command dmsetup ls --target ioband | grep -v '^No devices')
}

leave_cgroups() {
	local i
	echo $$ >/sys/fs/cgroup/cgroup.procs
	for ((i = 0; i < 20; i++)); do
		find /sys/fs/cgroup -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
		compgen -G '/sys/fs/cgroup/*/' >/dev/null || return 0
		sleep 0.1
	done
	why "cgroups are left"
}

# example TITLE
example() {
	local kind line command='' output='' title='' part
	sdb || { why "no disk"; return; }
	# The first one mounts them.
	for part in /dev/sdb[12]; do
		[[ $1 != "${titles[0]}" ]] || mkfs.ext4 -qF "$part" || return
	done
	mkdir -p /mnt/a /mnt/b
	set -m	# as an interactive shell: each job has a process group
	while IFS= read -r line; do
		kind=${line:0:1} line=${line:1}
		case $kind in
		S)	title=$line ;;
		C)	[[ $title == "$1" ]] || continue
			[[ ! $command ]] || run "$command" "$output"
			command=$line output='' ;;
		O)	[[ $title == "$1" ]] || continue
			output+=${output:+$'\n'}$line ;;
		esac
	done <"$TMP/examples"
	[[ $command ]] || why "no command"
	run "$command" "$output"
	reload_all
	leave_cgroups
}

mapfile -t titles < <(sed -n 's/^S//p' "$TMP/examples")
for title in "${titles[@]}"; do
	full t 120 "example: $title" example "$title"
done

# has WORD...: the examples use each
has() {
	local word missing=''
	for word; do
		grep -q "^C.*$word" "$TMP/examples" || missing+=" $word"
	done
	echo "$missing"
}
is "each type has an example" "$(has ' none ' ' user ' ' gid ' ' pid ' ' pgrp ' ' cgroup ')" ""
is "each policy has an example" "$(has ' weight ' ' weight-iosize ' ' range-bw ')" ""
is "each key has an example" "$(has rbps= wbps= wiops= burst_ms= parent=)" ""
messages=()
for word in weight range-bw limit parent attach detach type policy io_throttle io_limit token carryover reset stats; do
	messages+=("dmsetup message ioband[12] 0 $word")
done
is "each message has an example" "$(has "${messages[@]}")" ""
is "nothing but commands and output in the examples" "$(grep -v '^[SCO].' "$TMP/examples")" ""

#--- The errors ------------------------------------------------------------------

[[ ! $ONLY ]] || done_testing	# of the examples

unset -f dmsetup
sdb || bail "no disk"
nb nullb1 64 zoned=1 zone_size=4
D=/dev/sdb1
N=65536
mkdir -p /sys/fs/cgroup/p /mnt/b
mkfs.ext4 -qF /dev/sdb2
mount /dev/sdb2 /mnt/b
dmsetup create base --table "0 $N ioband $D base 10 400 user weight 8 :100"
klog_read

# page_errors TEXT: the errors in the list that follows the line TEXT in ERRORS
page_errors() {
	awk -v text="$1" '
		/^\.Sh / { inside = $2 == "ERRORS" }
		inside && $0 == text { found = 1 }
		found && /^\.El/ { exit }
		found && /^\.It Bq Er/ { print $4 }' "$PAGE" | sort
}

SEEN=()

# error NAME ERRNO LOG COMMAND...: how the command fails. ERRNO is as in the page;
# others that it allows may follow, after a "/" each. If there is LOG, one line
# in the log begins with "device-mapper:" and has LOG in it. Nothing changes.
error() {
	local out errno text='' line nr=0
	out=$("${@:4}" 2>&1) && text="it was accepted;"
	errno=$(errno_of "$out")
	[[ /$2/ == */"$errno"/* ]] || text+=" errno $errno instead of $2;"
	klog_read
	while IFS= read -r line; do
		[[ $line != 'device-mapper: '*"$3"* ]] || nr=$((nr + 1))
	done <<<"$KLOG"
	[[ ! $3 ]] || ((nr == 1)) || text+=" $nr lines in the log say \"$3\": $KLOG"
	line=$(dmsetup table)
	[[ $line == "$STATE" ]] || text+=" changed: $line, was: $STATE"
	SEEN+=("${2%%/*}")
	checked "${text:+1}" "$1" "$text"
}

# rows KIND: "ERRNO|LOG|WORDS" from stdin
rows() {
	local errno log words
	SEEN=()
	STATE=$(dmsetup table)
	while IFS='|' read -r errno log words; do
		case $1 in
		table) error "table: $errno: $log" "$errno" "$log" dmsetup create t --table "0 $N ioband $words" ;;
		message) error "message $words: $errno" "$errno" "$log" dmsetup message base 0 "$words" ;;
		esac
	done
}

# all_errors NAME TEXT: those of the page under TEXT are those that were SEEN, but for
# ENOMEM, which doesn't come when asked for
all_errors() {
	is "$1" "$(page_errors "$2")" "$(printf '%s\n' "${SEEN[@]}" ENOMEM | sort -u)"
}

NAME32=$(printf 'x%.0s' {1..32})
rows table <<ROWS
EINVAL|needs <device> <domain>|$D d 0 0 none weight
EINVAL|default group: weight is "1k", must be a decimal number|$D d 0 0 none weight 0 :1k
EINVAL|group "1000": weight is "1k", must be a decimal number|$D d 0 0 user weight 0 :10 1000:1k
EINVAL|io_throttle is "1k", must be a decimal number|$D d 1k 0 none weight 0
EINVAL|must have 1 to 31|$D $NAME32 0 0 none weight 0
EINVAL|type "group" is unknown, allowed are: none, user|$D d 0 0 group weight 0
EINVAL|policy "fair" is unknown, allowed are: default, weight|$D d 0 0 none fair 0
EINVAL|group id is "bob", must be a user number|$D d 0 0 user weight 0 bob:10
EINVAL|"bps" is unknown, allowed are: rbps=|$D d 0 0 none weight 0 :10:bps=5
EINVAL|rbps is "10m", must be a decimal number from 1|$D d 0 0 none weight 0 :10:rbps=10m
EINVAL|rbps is given twice|$D d 0 0 none weight 0 :10:rbps=5:rbps=6
EINVAL|the default group is given twice|$D d 0 0 none weight 0 :10 :20
EINVAL|max is missing|$D d 0 0 none range-bw 0 :10
EINVAL|weight is missing|$D d 0 0 user weight 0 1000:rbps=5
EINVAL|is too much|$D d 0 0 none weight 0 :10:20
EINVAL|default group: min is 10 and max is 0: max must not be below min|$D d 0 0 none range-bw 0 :10:0
EINVAL|io_throttle 9 is above io_limit 8|$D d 9 8 none weight 0
EINVAL|type none has the default group only|$D d 0 0 none weight 0 1000:10
EINVAL|is the default group's|$D d 0 0 user weight 0 default:10
EINVAL|is the default group's|$D d 0 0 user weight 0 -1:10
EINVAL|the default group can't have a parent|$D d 0 0 user weight 0 :10:parent=1000 1000:10
EINVAL|the default group can't be a parent|$D d 0 0 user weight 0 1000:10:parent=default
EINVAL|the tree of cgroups says|$D d 0 0 cgroup weight 0 /p:10:parent=/
EINVAL|which is the same or below it|$D d 0 0 user weight 0 1:10:parent=2 2:10:parent=1
EINVAL|io_throttle 11 differs from 10 of the other devices in domain base: give 0 or the same, or send one of them the message "io_throttle 11"|$D base 11 0 none weight 0
EINVAL|token_base 9 differs from 8 of the other devices in domain base: give 0 or the same, or send one of them the message "token 9"|$D base 0 0 none weight 9
EINVAL|policy weight-iosize differs from weight of the other devices in domain base: give the same, or send one of them the message "policy weight-iosize"|$D base 0 0 none weight-iosize 0
EINVAL|is zoned|/dev/nullb1 d 0 0 none weight 0
ERANGE|io_throttle is 1048577, must be from 0 to 1048576|$D d 1048577 0 none weight 0
ERANGE|io_limit is 1048577, must be from 0 to 1048576|$D d 0 1048577 none weight 0
ERANGE|token_base is 4294967296, must be from 0 to 4294967295|$D d 0 0 none weight 4294967296
ERANGE|weight is 32768, must be from 1 to 32767|$D d 0 0 none weight 0 :32768
ERANGE|min is 4294967296, must be from 0 to 4294967295|$D d 0 0 none range-bw 0 :4294967296:0
ERANGE|group id is "4294967296", must be a user number|$D d 0 0 user weight 0 4294967296:10
ERANGE|rbps is 0, must be from 1 to 9223372036854775807, or max|$D d 0 0 none weight 0 :10:rbps=0
ERANGE|wiops is 9223372036854775808, must be from 1|$D d 0 0 none weight 0 :10:wiops=9223372036854775808
ERANGE|burst_ms is 10001, must be from 1 to 10000|$D d 0 0 none weight 0 :10:burst_ms=10001
ENOENT|no cgroup "/nowhere"|$D d 0 0 cgroup weight 0 /nowhere:10
ENOENT|group "1000": parent: no group "1001" on this device|$D d 0 0 user weight 0 1000:10:parent=1001
EEXIST|group "1000" is there already|$D d 0 0 user weight 0 1000:10 1000:20
EBUSY|device "/dev/sdb2" is in use, as by a mounted file system|/dev/sdb2 d 0 0 none weight 0
ENODEV/ENOTBLK|no block device "/dev/null": must be the path of one, or <major>:<minor>|/dev/null d 0 0 none weight 0
ENODEV/ENOENT/ENXIO|no block device "/dev/none": must be|/dev/none d 0 0 none weight 0
ENODEV/ENOENT/ENXIO|no block device "999:999": must be|999:999 d 0 0 none weight 0
ROWS
error "table: EINVAL: too short" EINVAL "has $N sectors, the target needs $((N + 8))" \
	dmsetup create t --table "0 $((N + 8)) ioband $D d 0 0 none weight 0"
two=$'0 8 ioband /dev/sdb1 d %s\n8 8 ioband /dev/sdb1 d %s\n'
two_targets() {
	# shellcheck disable=SC2059
	printf "$two" "$1" "$2" | dmsetup create t
}
error "table: EINVAL: two values in a table" EINVAL "io_throttle is 5 and 6 in one table and domain" \
	two_targets "5 0 none weight 0" "6 0 none weight 0"
error "table: EINVAL: two policies in a table" EINVAL "policies weight and range-bw in one table and domain" \
	two_targets "0 0 none weight 0" "0 0 none range-bw 0"
all_errors "the errors of table lines that the page lists" "A table line:"

# The domain has changed between the load and the resume.
stale() {
	dmsetup create t --notable && dmsetup load t --table "0 $N ioband $D base 10 0 none weight 0" &&
		dmsetup message base 0 io_throttle 12 || return 0
	dmsetup resume t
	set -- $?
	dmsetup message base 0 io_throttle 10
	dmsetup remove t
	return "$1"
}
error "resume: EINVAL: the domain has other settings by now" EINVAL \
	"resume: io_throttle 10 differs from 12 of the other devices in domain base" stale

dmsetup message base 0 attach 1000
dmsetup message base 0 attach 1001:5:parent=1000
rows message <<'ROWS'
EINVAL|message "wait" is unknown, allowed are: weight|wait 5
EINVAL|too few words, must be: limit <id> <key>=<value>...|limit
EINVAL|weight is "5%", must be a decimal number|weight 5%
EINVAL|":5" must be written [<id>:]<weight>|weight :5
EINVAL|policy weight has no ranges, use weight|range-bw default:1:2
EINVAL|io_throttle 401 is above io_limit 400|io_throttle 401
EINVAL|the default group can't be detached|detach default
EINVAL|the default group can't have a parent|parent default 1000
EINVAL|the default group can't be a parent|parent 1000 default
EINVAL|which is the same or below it|parent 1000 1001
EINVAL|use parent <id> <parent-id>|limit 1000 parent=1001
EINVAL|rbps is given twice|limit 1000 rbps=1 rbps=2
EINVAL|is the default group's|attach default
EINVAL|must be a user number from 0 to 4294967295|attach bob
ERANGE|weight is 0, must be from 1 to 32767|weight 1000:0
ERANGE|burst_ms is 0, must be from 1 to 10000|limit 1000 burst_ms=0
ERANGE|carryover is 4294967296, must be from 0 to 4294967295|carryover 4294967296
ERANGE|group id is "4294967296"|attach 4294967296
ENOENT|no group "1002" on this device|weight 1002:5
ENOENT|no group "1002" on this device|stats 1002
EEXIST|group "1000" is there already|attach 1000
EBUSY|type user has groups: detach them first|type none
ROWS
seen=("${SEEN[@]}")
dmsetup message base 0 detach 1001
dmsetup message base 0 detach 1000
dmsetup message base 0 type none
rows message <<'ROWS'
EINVAL|type none has the default group only|attach 1000
ENOENT|type none has the default group only|weight 1000:5
ROWS
dmsetup message base 0 type cgroup
dmsetup message base 0 policy range-bw
dmsetup message base 0 attach /p
rows message <<'ROWS'
EINVAL|policy range-bw has no weights, use range-bw|weight 5
EINVAL|min is 2 and max is 1: max must not be below min|range-bw /p:2:1
EINVAL|":1:2" must be written <id>:<min>:<max>, where id is default for the default group|range-bw :1:2
EINVAL|the tree of cgroups says which group is the parent|parent /p none
ENOENT|no cgroup "/nowhere"|attach /nowhere
ENOENT|no cgroup "/nowhere"|detach /nowhere
ROWS
SEEN=("${seen[@]}")
all_errors "the errors of messages that the page lists" "A message:"

dmsetup create empty --notable
klog_read
STATE=$(dmsetup table)
error "device-mapper: no live table" EINVAL "" dmsetup message empty 0 reset
error "device-mapper: no words" EINVAL "Empty message" dmsetup message base 0 ""
error "device-mapper: a sector outside" EINVAL "outside device" dmsetup message base $((N + 8)) reset
error "device-mapper: no such device" ENXIO "" dmsetup message nobody 0 reset

dmsetup remove_all
umount /mnt/b
rmdir /sys/fs/cgroup/p
done_testing
