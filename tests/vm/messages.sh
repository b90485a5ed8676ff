#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Messages: which are accepted and what they change, which are refused, with
# what errno and what words in the kernel's log.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh

nb nullb0 64
D=/dev/nullb0
N=$(sectors $D)
DEVNO=$(</sys/block/nullb0/dev)
WORDS200=$(printf ' 1%.0s' {1..200})
LONG10K=$(printf 'x%.0s' {1..10000})

# refused NAME ERRNO LOG MESSAGE [SECTOR]: LOG is a part of the one line in the
# kernel's log; nothing may have changed
refused() {
	local out text='' errno state
	if out=$(dmsetup message t "${5-0}" "$4" 2>&1); then
		text="it was accepted;"
	fi
	errno=$(errno_of "$out")
	[[ $errno == "$2" ]] || text+=" errno $errno instead of $2;"
	klog_read
	klog_lines 'device-mapper: *'
	[[ $SAID == *"$3"* ]] || text+=" the log doesn't say \"$3\": $KLOG"
	((SAID_NR == 1)) || text+=" not one line in the log: $KLOG"
	state=$(dmsetup table t)
	[[ $state == "$STATE" ]] || text+=" changed: $state, was: $STATE"
	checked "${text:+1}" "refused: $1" "$text"
}

# accepted MESSAGE TABLE: what the words after the device are then
accepted() {
	local out
	out=$(msg t "$1" 2>&1; dmsetup table t)
	STATE="0 $N ioband $DEVNO $2"
	is "accepted: ${1:0:60}" "$out" "$STATE"
}

ioband t $D d 10 400 none weight 0 :100
STATE=$(dmsetup table t)

for bad in -1 +1 1.5 abc 0x10 '\ 7' '7\ ' 1e3 '7,' -5 default; do
	shown=${bad//\\/}
	refused "weight $bad"		EINVAL "weight is \"$shown\", must be a decimal number from 1 to 32767" "weight $bad"
	refused "io_throttle $bad"	EINVAL "io_throttle is \"$shown\", must be a decimal number" "io_throttle $bad"
	refused "io_limit $bad"		EINVAL "io_limit is \"$shown\", must be a decimal number" "io_limit $bad"
	refused "token $bad"		EINVAL "token is \"$shown\", must be a decimal number" "token $bad"
	refused "carryover $bad"	EINVAL "carryover is \"$shown\", must be a decimal number" "carryover $bad"
done
for bad in 4294967296 18446744073709551617 99999999999999999999999; do
	refused "weight $bad"		ERANGE "weight is $bad, must be from 1 to 32767" "weight $bad"
	refused "io_throttle $bad"	ERANGE "io_throttle is $bad, must be from 0" "io_throttle $bad"
	refused "io_limit $bad"		ERANGE "io_limit is $bad, must be from 0" "io_limit $bad"
	refused "token $bad"		ERANGE "token is $bad, must be from 0" "token $bad"
	refused "carryover $bad"	ERANGE "carryover is $bad, must be from 0" "carryover $bad"
done
refused "weight 0"		ERANGE "weight is 0, must be from 1 to 32767" "weight 0"
refused "weight 32768"		ERANGE "weight is 32768, must be from 1 to 32767" "weight 32768"
refused "weight without id"	EINVAL "\":10\" must be written [<id>:]<weight>" "weight :10"
refused "weight with a key"	EINVAL "\"default:10:rbps=5\" must be written [<id>:]<weight>" "weight default:10:rbps=5"
refused "weight without weight"	EINVAL "" "weight default:"
refused "only a colon"		EINVAL "" "weight :"
refused "weight of id 0"	ERANGE "weight is 0" "weight default:0"
refused "weight of id -5"	EINVAL "" "weight default:-5"
refused "two weights"		EINVAL "takes 1 parameter(s)" "weight default:10:20"
refused "no such group"		ENOENT "no group \"1000\"" "weight 1000:50"
refused "another such"		ENOENT "no group \"abc\"" "weight abc:50"

refused "io_throttle above io_limit" EINVAL "io_throttle 401 is above io_limit 400" "io_throttle 401"
refused "io_limit below io_throttle" EINVAL "io_throttle 10 is above io_limit 9" "io_limit 9"

refused "unknown word"		EINVAL "message \"frobnicate\" is unknown, allowed are: " "frobnicate"
refused "unknown word with arguments" EINVAL "message \"frobnicate\" is unknown" "frobnicate 1 2 3"
refused "capitals"		EINVAL "message \"WEIGHT\" is unknown" "WEIGHT 10"
refused "a word of 10 kB"	EINVAL "is unknown" "$LONG10K"
refused "nothing"		EINVAL "Empty message" ""
for word in weight io_throttle io_limit token carryover; do
	refused "$word without argument" EINVAL "too few words, must be: $word" "$word"
	refused "$word with two"	EINVAL "too many words, must be: $word" "$word 10 20"
	refused "$word with 200"	EINVAL "too many words, must be: $word" "$word$WORDS200"
	refused "$word with 10 kB"	EINVAL "must be a decimal number" "$word $LONG10K"
done
refused "reset with an argument" EINVAL "must be: reset" "reset 1"
refused "behind the end"	EINVAL "outside device" "weight 5" $((N + 8))

accepted "weight 1"		"d 10 400 none weight 0 :1"
accepted "weight 32767"		"d 10 400 none weight 0 :32767"
accepted "weight default:50"	"d 10 400 none weight 0 :50"
accepted "weight -1:51"		"d 10 400 none weight 0 :51"
# In a word of its own, which dmsetup would take for an option.
dmsetup message t 0 weight '\-1:53'
STATE="0 $N ioband $DEVNO d 10 400 none weight 0 :53"
is "accepted: weight \-1:53" "$(dmsetup table t)" "$STATE"
accepted "weight 0052"		"d 10 400 none weight 0 :52"
accepted "weight 52"		"d 10 400 none weight 0 :52"
accepted "io_throttle 20"	"d 20 400 none weight 0 :52"
accepted "io_throttle 0"	"d 0 400 none weight 0 :52"
accepted "io_limit 5"		"d 0 5 none weight 0 :52"
accepted "io_throttle 5"	"d 5 5 none weight 0 :52"
accepted "io_limit 0"		"d 5 0 none weight 0 :52"
accepted "io_throttle 1000"	"d 1000 0 none weight 0 :52"
accepted "token 4294967295"	"d 1000 0 none weight 4294967295 :52"
accepted "token 0"		"d 1000 0 none weight 0 :52"
accepted "carryover 0"		"d 1000 0 none weight 0 :52"
accepted "carryover 4294967295"	"d 1000 0 none weight 0 :52"
accepted "carryover 1"		"d 1000 0 none weight 0 :52"

dd_read /dev/mapper/t 4k 10
dd_write /dev/mapper/t 4k 5
is "counted" "$(io_stat t reads read_sectors writes write_sectors)" "10 80 5 40"
msg t reset
is "zero after a reset" "$(io_stat t reads reads_held read_sectors writes writes_held write_sectors)" "0 0 0 0 0 0"
is "a reset changes no setting" "$(dmsetup table t)" "$STATE"
dd_read /dev/mapper/t 4k 3
is "counted after a reset" "$(io_stat t reads read_sectors writes)" "3 24 0"

# A domain's setting is seen by all of its devices.
dmsetup create u --table "0 $N ioband $D d 0 0 none weight 0 :9"
msg t io_throttle 33
is "the other device of the domain" "$(dmsetup table u)" "0 $N ioband $DEVNO d 33 0 none weight 0 :9"
msg t weight 44
is "a weight is its group's own" "$(dmsetup table u)" "0 $N ioband $DEVNO d 33 0 none weight 0 :9"
dmsetup remove u

dmsetup suspend t
accepted "weight 77"		"d 33 0 none weight 0 :77"
accepted "io_throttle 34"	"d 34 0 none weight 0 :77"
refused "bad weight on a suspended device" ERANGE "weight is 0" "weight 0"
dmsetup resume t
is "it outlasts the suspend" "$(dmsetup table t)" "$STATE"

dmsetup create u --notable
out=$(msg u weight 5 2>&1)
is "refused: no live table" "$(errno_of "$out")" EINVAL
dmsetup load u --table "0 $N ioband $D e 0 0 none weight 0"
out=$(msg u weight 5 2>&1)
is "refused: table loaded, not live" "$(errno_of "$out")" EINVAL
dmsetup remove u

# change DEVICE WORD FROM TO: each value, one after the other
change() {
	local i
	for ((i = $3; i <= $4; i++)); do
		msg "$1" "$2" "$i" || { echo "$2 $i"; return 1; }
	done
}

many_changes() {
	local n a b
	n=$(times 100)
	nb nullb0 64 "${CALM[@]}"
	ioband t "$D" d 4 0 none weight 0 :100
	start_fio load --filename=/dev/mapper/t --rw=randrw --bs=4k --iodepth=32 --time_based --runtime=600
	change t weight 101 $((100 + n)) & a=$!
	change t io_throttle 1 "$n" & b=$!
	wait "$a"; want "weight changes" $? 0
	wait "$b"; want "io_throttle changes" $? 0
	want "the last of each" "$(dmsetup table t)" "0 $N ioband $DEVNO d $n 0 none weight 0 :$((100 + n))"
	end_fio "$FIO" load || why "the load failed"
	want_true "$(io_stat t reads) > 0" "nothing was read"
}

take_away
t 600 "100 changes by two shells each while I/O runs" many_changes

done_testing
