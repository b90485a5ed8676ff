#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Table lines: which are accepted and how they are printed, which are refused,
# with what errno and what words in the kernel's log.
cd "$(dirname "$0")" || exit
# shellcheck source=tests/lib/tap.sh
. ../lib/tap.sh

nb nullb0 64
nb nullb1 64 zoned=1 zone_size=4
D=/dev/nullb0
N=$(sectors $D)
DEVNO=$(</sys/block/nullb0/dev)
LONG31=$(printf 'x%.0s' {1..31})
LONG10K=$(printf 'x%.0s' {1..10000})
GROUPS200=$(printf ' :100%.0s' {1..200})
AGAIN=		# whether state is watched: of the live device "base"

state() { dmsetup table; dmsetup status; }

# accepted NAME PRINTED WORDS: the words behind the device, as given and as
# printed. The printed line is loaded again and must print the same.
accepted() {
	local wanted="0 $N ioband $DEVNO $2" out got again
	out=$(dmsetup create t --table "0 $N ioband $D $3" 2>&1) &&
		got=$(dmsetup table t) &&
		swap_table t "$got" && again=$(dmsetup table t)
	dmsetup remove t >/dev/null 2>&1
	if [[ $got == "$wanted" && $again == "$wanted" ]]; then
		pass "accepted: $1"
	else
		fail "accepted: $1" "$out"$'\n'"got:    $got"$'\n'"again:  $again"$'\n'"wanted: $wanted"
	fi
}

# refused NAME ERRNO LOG WORDS [TARGET]: LOG is a part of the one line in the
# kernel's log, ERRNO may be several, A|B
refused() {
	local out errno text='' users
	users=$(</sys/module/dm_ioband/refcnt)
	if out=$(dmsetup create t --table "${5-"0 $N ioband"} $4" 2>&1); then
		dmsetup remove t
		text="it was accepted"
	fi
	errno=$(errno_of "$out")
	[[ $errno =~ ^($2)$ ]] || text+=" errno $errno instead of $2;"
	klog_read
	klog_lines '*ioband: *'
	[[ $SAID == *"$3"* ]] || text+=" the log doesn't say \"$3\":"$'\n'"$KLOG"
	((SAID_NR == 1)) || text+=" not one line in the log:"$'\n'"$KLOG"
	[[ $(</sys/module/dm_ioband/refcnt) == "$users" ]] || text+=" the module has $(use_count) users, not $users;"
	[[ ! $AGAIN || $(state) == "$AGAIN" ]] || text+=" changed: $(state), was $AGAIN"
	checked "${text:+1}" "refused: $1" "$text"
}

# Words as they stand after the device: domain io_throttle io_limit type policy
# token_base group...
accepted "all automatic"		"d 0 0 none weight 0 :100"	"d 0 0 none weight 0 :100"
accepted "no group: weight 100"		"d 0 0 none weight 0 :100"	"d 0 0 none weight 0"
accepted "policy default is weight"	"d 0 0 none weight 0 :40"	"d 0 0 none default 0 :40"
accepted "everything set"		"share1 10 400 none weight 2048 :100" "share1 10 400 none weight 2048 :100"
accepted "least weight"			"1 0 0 none weight 0 :1"	"1 0 0 none weight 0 :1"
accepted "largest weight"		"1 0 0 none weight 0 :32767"	"1 0 0 none weight 0 :32767"
accepted "domain of 31 characters"	"$LONG31 0 0 none weight 0 :100" "$LONG31 0 0 none weight 0 :100"
accepted "odd characters in the domain"	":/-%s 0 0 none weight 0 :100"	":/-%s 0 0 none weight 0 :100"
accepted "io_throttle is io_limit"	"d 7 7 none weight 0 :100"	"d 7 7 none weight 0 :100"
accepted "io_throttle without io_limit"	"d 500 0 none weight 0 :100"	"d 500 0 none weight 0 :100"
accepted "io_limit without io_throttle"	"d 0 1 none weight 0 :100"	"d 0 1 none weight 0 :100"
accepted "leading zeroes"		"d 10 400 none weight 8 :9"	"d 010 0400 none weight 008 :009"
accepted "largest token_base"		"d 0 0 none weight 4294967295 :100" "d 0 0 none weight 4294967295 :100"
accepted "tabs and many blanks"		"d 1 2 none weight 3 :4"	$'  d \t 1  2 none\tweight 3 :4  '

refused "nothing"		EINVAL "needs <device> <domain>" ""
refused "device only"		EINVAL "needs <device> <domain>" "$D"
refused "no io_throttle"	EINVAL "needs <device> <domain>" "$D d"
refused "no io_limit"		EINVAL "needs <device> <domain>" "$D d 0"
refused "no type"		EINVAL "needs <device> <domain>" "$D d 0 0"
refused "no policy"		EINVAL "needs <device> <domain>" "$D d 0 0 none"
refused "no token_base"		EINVAL "needs <device> <domain>" "$D d 0 0 none weight"

refused "no such path"		"ENODEV|ENOENT" "no block device \"/dev/none\": must be the path of one, or <major>:<minor>" "/dev/none d 0 0 none weight 0"
refused "no such number"	"ENODEV|ENOENT|ENXIO" "no block device \"999:999\"" "999:999 d 0 0 none weight 0"
refused "not a block device"	"ENOTBLK|ENODEV" "no block device \"/dev/null\"" "/dev/null d 0 0 none weight 0"
refused "a directory"		"ENOTBLK|ENODEV" "no block device \"/tmp\"" "/tmp d 0 0 none weight 0"
refused "device too short"	EINVAL "has $N sectors, the target needs $((N + 8))" \
	"$D d 0 0 none weight 0" "0 $((N + 8)) ioband"
refused "zoned device"		EINVAL "\"/dev/nullb1\" is zoned" "/dev/nullb1 d 0 0 none weight 0"

refused "domain of 32 characters" EINVAL "domain name has 32 characters, must have 1 to 31" "$D x$LONG31 0 0 none weight 0"
refused "domain of 10 kB"	EINVAL "domain name has 10000 characters" "$D $LONG10K 0 0 none weight 0"
refused "domain with a backslash"	EINVAL "without blank or backslash" "$D a\\b 0 0 none weight 0"

for bad in -1 +1 1.5 abc 0x10 1e3 '7,' -; do
	refused "io_throttle $bad"	EINVAL "io_throttle is \"$bad\", must be a decimal number" "$D d $bad 0 none weight 0"
	refused "io_limit $bad"		EINVAL "io_limit is \"$bad\", must be a decimal number" "$D d 0 $bad none weight 0"
	refused "token_base $bad"	EINVAL "token_base is \"$bad\", must be a decimal number" "$D d 0 0 none weight $bad"
	refused "weight $bad"		EINVAL "weight is \"$bad\", must be a decimal number" "$D d 0 0 none weight 0 :$bad"
done
for bad in 4294967296 18446744073709551617 99999999999999999999999; do
	refused "io_throttle $bad"	ERANGE "io_throttle is $bad, must be from 0" "$D d $bad 0 none weight 0"
	refused "io_limit $bad"		ERANGE "io_limit is $bad, must be from 0" "$D d 0 $bad none weight 0"
	refused "token_base $bad"	ERANGE "token_base is $bad, must be from 0 to 4294967295" "$D d 0 0 none weight $bad"
	refused "weight $bad"		ERANGE "weight is $bad, must be from 1 to 32767" "$D d 0 0 none weight 0 :$bad"
done
refused "weight 0"		ERANGE "weight is 0, must be from 1 to 32767" "$D d 0 0 none weight 0 :0"
refused "weight 32768"		ERANGE "weight is 32768, must be from 1 to 32767" "$D d 0 0 none weight 0 :32768"
refused "io_throttle above io_limit" EINVAL "io_throttle 10 is above io_limit 5" "$D d 10 5 none weight 0"

refused "unknown type"		EINVAL "type \"bogus\" is unknown, allowed" "$D d 0 0 bogus weight 0"
refused "type in capitals"	EINVAL "type \"NONE\" is unknown, allowed" "$D d 0 0 NONE weight 0"
refused "unknown policy"	EINVAL "policy \"bogus\" is unknown, allowed are: default, weight" "$D d 0 0 none bogus 0"
refused "policy with a tail"	EINVAL "policy \"weights\" is unknown" "$D d 0 0 none weights 0"

refused "group without colon"	EINVAL "group \"100\" must be written [<id>]:<parameters>" "$D d 0 0 none weight 0 100"
refused "group without weight"	EINVAL "weight is \"\"" "$D d 0 0 none weight 0 :"
refused "weight with a colon"	EINVAL "takes 1 parameter(s)" "$D d 0 0 none weight 0 :100:"
refused "two weights"		EINVAL "takes 1 parameter(s)" "$D d 0 0 none weight 0 :100:200"
refused "default group twice"	EINVAL "the default group is given twice" "$D d 0 0 none weight 0 :100 :200"
refused "default group 200 times" EINVAL "the default group is given twice" "$D d 0 0 none weight 0$GROUPS200"
refused "an id with type none"	EINVAL "group id \"1000\": type none has the default group only" "$D d 0 0 none weight 0 1000:80"
refused "second group with id"	EINVAL "" "$D d 0 0 none weight 0 :100 1000:80"

is "no user of the module is left" "$(use_count)" 0

# Joining a domain.
ioband base $D d1 10 400 none weight 2048 :100
AGAIN=$(state)
accepted "join with all 0"	"d1 10 400 none weight 2048 :40"	"d1 0 0 none weight 0 :40"
accepted "join with the same"	"d1 10 400 none weight 2048 :40"	"d1 10 400 none weight 2048 :40"
accepted "another domain"	"D1 11 401 none weight 1 :40"		"D1 11 401 none weight 1 :40"
refused "join with another io_throttle" EINVAL "io_throttle 11 differs from 10 of the other devices in domain d1: give 0 or the same, or send one of them the message \"io_throttle 11\"" "$D d1 11 0 none weight 0"
refused "join with another io_limit"	EINVAL "or send one of them the message \"io_limit 401\"" "$D d1 0 401 none weight 0"
refused "join with another token_base"	EINVAL "or send one of them the message \"token 2049\"" "$D d1 0 0 none weight 2049"
refused "join with another of each"	EINVAL "differs" "$D d1 1 2 none weight 3"
refused "an error beside a live device" EINVAL "weight is \"abc\"" "$D d1 0 0 none weight 0 :abc"
is "nothing of the live device has changed" "$(state)" "$AGAIN"
msg base io_throttle 20
AGAIN=$(state)
accepted "join with a setting changed by message" "d1 20 400 none weight 2048 :40" "d1 20 400 none weight 2048 :40"
refused "join with the setting before that" EINVAL "io_throttle 10 differs from 20" "$D d1 10 0 none weight 0"

# One above the other: I/O that the lower one holds would wait for itself.
refused "above a device of the same domain" EINVAL "is in domain d1 itself: one above it needs another domain" \
	"/dev/mapper/base d1 0 0 none weight 0"
D=/dev/mapper/base DEVNO=$(dmsetup info -c --noheadings -o major,minor --separator : base) \
	accepted "above a device of another domain" "d2 0 0 none weight 0 :100" "d2 0 0 none weight 0 :100"

# Joining an automatic domain: a value is another than 0.
dmsetup remove base
ioband base $D d1 0 0 none weight 0 :100
AGAIN=$(state)
refused "join an automatic domain with an io_throttle" EINVAL "io_throttle 3 differs from 0" "$D d1 3 0 none weight 0"
refused "join an automatic domain with an io_limit" EINVAL "io_limit 3 differs from 0" "$D d1 0 3 none weight 0"

# The line printed after live changes gives the same state in a new device.
dmsetup remove base
AGAIN=
ioband base $D d1 0 0 none weight 0 :100
for m in "weight 7" "io_limit 300" "io_throttle 30" "token 99"; do
	msg base "$m"
done
line=$(dmsetup table base)
is "live changes are printed" "$line" "0 $N ioband $DEVNO d1 30 300 none weight 99 :7"
dmsetup remove base
dmsetup create base --table "$line"
is "and the line gives the same state" "$(dmsetup table base)" "$line"

done_testing
