# shellcheck shell=bash
# Sourced by tests/vm/figures*.sh: simulated disks, loads, what they got, TAP.
#
# What a device got is taken from /proc/diskstats (I/Os that completed) over a
# window in which all jobs run: not from the sums that fio prints, which contain
# the start and the end, when the jobs don't compete.
#
# Scripts end with: figures_done

export LC_ALL=C
modprobe dm-ioband || exit 1
modprobe null_blk nr_devices=0 || exit 1

figures_kernel=$(uname -r)
figures_number='^-?[0-9]+(\.[0-9]+)?$'
figures_json=/dev/null
if [[ -d /share ]]; then
	figures_json=/share/$(basename "$0" .sh)-$figures_kernel.jsonl
	: >"$figures_json"
fi

#--- TAP ----------------------------------------------------------------------

tap_count=0
tap_failures=0

# tap STATUS TEXT: one test; STATUS 0 is good.
tap() {
	tap_count=$((tap_count + 1))
	if (($1 == 0)); then
		echo "ok $tap_count - $2"
	else
		tap_failures=$((tap_failures + 1))
		echo "not ok $tap_count - $2"
	fi
}

# check TEXT EXPRESSION [VARIABLE=NUMBER...]: EXPRESSION is awk's. Fails also if one
# isn't a number.
check() {
	local text=$1 expression=$2 v args=()
	shift 2
	for v; do
		[[ ${v#*=} =~ $figures_number ]] || expression="0 && $expression"
		args+=(-v "$v")
	done
	awk "${args[@]}" "BEGIN { exit !($expression) }" </dev/null
	tap $? "$text"
}

# figure NAME [KEY=VALUE...]: a diagnostic for people and a line of JSON.
figure() {
	local name=$1 line kv
	shift
	echo "# $name: $*"
	line="{\"figure\":\"$name\",\"kernel\":\"$figures_kernel\""
	for kv; do
		if [[ ${kv#*=} =~ $figures_number ]]; then
			line+=",\"${kv%%=*}\":${kv#*=}"
		else
			line+=",\"${kv%%=*}\":\"${kv#*=}\""
		fi
	done
	echo "$line}" >>"$figures_json"
}

# calc EXPRESSION [DIGITS]: a number, with awk.
calc() {
	awk "BEGIN { printf \"%.${2:-2}f\", ($1) }" </dev/null
}

figures_done() {
	echo "1..$tap_count"
	exit $((tap_failures > 0))
}

trouble() {
	echo "Bail out! $*"
	exit 1
}

# share_and_sum BARE: after measure with two devices, sets $share to that of the first
# in %, and $sum to what both did in % of BARE, I/Os a second without control.
share_and_sum() {
	# shellcheck disable=SC2034	# for the caller
	share=$(calc "100 * ${ios[0]} / (${ios[0]} + ${ios[1]})")
	# shellcheck disable=SC2034
	sum=$(calc "100 * $iops / $1")
}

#--- Latency --------------------------------------------------------------------

# For fio: the whole latency counts, since without control a job sleeps in the
# submission. Not with --gtod_reduce.
# shellcheck disable=SC2034	# for those who source this
fio_latency=(--output-format=json --clat_percentiles=0 --lat_percentiles=1 --percentile_list=50:99:99.9)

# read_latency REPORT JOB: sets $p50, $p99, $p999 (ms) to those of a job's reads.
read_latency() {
	# shellcheck disable=SC2034	# for the caller
	read -r p50 p99 p999 < <(jq -r --arg job "$2" '
		first(.jobs[] | select(.jobname == $job)).read.lat_ns.percentile |
		[.["50.000000"], .["99.000000"], .["99.900000"] | (. / 1e3 | round) / 1e3] | join(" ")' "$1")
	[[ $p999 ]] || trouble "fio printed no latencies"
}

#--- Disks and devices ----------------------------------------------------------

# make_disk DEPTH NS [MBPS [NAME]]: sets $disk to the name of a disk that takes DEPTH
# I/Os at a time and NS nanoseconds for each, whatever its size, but does no more than
# MBPS MB/s if that isn't 0. It has 1 GiB and keeps no data. A timer makes the time, not
# the processor.
make_disk() {
	local name=${4-figures} dir
	dir=/sys/kernel/config/nullb/$name
	mkdir "$dir" || trouble "no null_blk"
	echo 1024 >"$dir/size"
	echo 2 >"$dir/irqmode"
	echo "$2" >"$dir/completion_nsec"
	echo "$1" >"$dir/hw_queue_depth"
	echo 1 >"$dir/submit_queues"
	echo "${3-0}" >"$dir/mbps"
	echo 1 >"$dir/power" || trouble "null_blk refuses the settings"
	# Newer kernels name the disk as the directory.
	disk=$name
	[[ -b /dev/$disk ]] || disk=nullb$(<"$dir/index")
	[[ -b /dev/$disk ]] || trouble "no disk"
	echo none >"/sys/block/$disk/queue/scheduler"
	sectors=$(<"/sys/block/$disk/size")
}

remove_named_disk() {
	rmdir "/sys/kernel/config/nullb/$1" || trouble "the disk is in use"
}

remove_disk() {
	remove_named_disk figures
}

# settle THRESHOLD: waits until shares hold, under a load that has begun. An automatic
# threshold is found within a second.
settle() {
	if (($1)); then sleep 0.5; else sleep 1.2; fi
}

# threshold N: what it is called in texts.
threshold() {
	if (($1)); then echo "threshold $1"; else echo "automatic threshold"; fi
}

# make_ioband THRESHOLD WEIGHT...: devices $disk with these weights, in one domain;
# sets $devices to their names (dm-N), and they are /dev/dm-N.
make_ioband() {
	local throttle=$1 w i=0
	shift
	devices=()
	for w; do
		i=$((i + 1))
		dmsetup create "share$i" --table \
			"0 $sectors ioband /dev/$disk figures $throttle 0 none weight 0 :$w" ||
			trouble "dmsetup create"
		devices+=("$(dmsetup info -c --noheadings -o blkdevname "share$i")")
		[[ -b /dev/${devices[-1]} ]] || trouble "no /dev/${devices[-1]}"
	done
}

make_linear() {
	dmsetup create linear --table "0 $sectors linear /dev/$disk 0" || trouble "dmsetup create"
	devices=("$(dmsetup info -c --noheadings -o blkdevname linear)")
}

remove_devices() {
	dmsetup remove_all || trouble "dmsetup remove_all"
	devices=()
}

#--- Loads ------------------------------------------------------------------------

fio_common=(--thread --direct=1 --bs=4k --norandommap --randrepeat=1 --gtod_reduce=1
	--time_based --runtime=600 --ioengine=psync --output=/dev/null)

# start_load DEVICE READWRITE JOBS [FIO-OPTION...] [-- DEVICE ...]: starts them, and
# returns when each has done something.
start_load() {
	local args=() devs=() i=0 dev name before now tries=0
	while (($#)); do
		i=$((i + 1))
		devs+=("$1")
		args+=(--name="job$i" --filename="/dev/$1" --rw="$2" --numjobs="$3")
		shift 3
		while (($#)) && [[ $1 != -- ]]; do
			args+=("$1")
			shift
		done
		shift
	done
	read_counters before "${devs[@]}"
	fio "${fio_common[@]}" "${args[@]}" &
	load=$!
	while :; do
		sleep 0.01
		read_counters now "${devs[@]}"
		for ((i = 0; i < ${#devs[@]}; i++)); do
			((now[i] > before[i])) || break
		done
		((i < ${#devs[@]})) || break
		((tries++ < 1000)) || trouble "the load doesn't start"
		[[ -e /proc/$load ]] || trouble "fio failed"
	done
}

stop_load() {
	kill "$load"
	wait "$load"
}

# read_counters ARRAY DEVICE...: I/Os completed so far by each, and after them the
# time in microseconds.
read_counters() {
	local -n out=$1
	local line lines dev f=()
	declare -A count
	shift
	mapfile -t lines </proc/diskstats
	for line in "${lines[@]}"; do
		read -ra f <<<"$line"
		count[${f[2]}]=$((f[3] + f[7]))
	done
	out=()
	for dev; do
		out+=("${count[$dev]}")
	done
	out+=("${EPOCHREALTIME/./}")
}

# measure SECONDS DEVICE...: sets $ios to what each did in that time, $iops to all of
# them together a second.
measure() {
	local a b i us seconds=$1 sum=0
	shift
	read_counters a "$@"
	sleep "$seconds"
	read_counters b "$@"
	ios=()
	for ((i = 0; i < $#; i++)); do
		ios+=($((b[i] - a[i])))
		sum=$((sum + ios[i]))
	done
	us=$((b[$#] - a[$#]))
	# shellcheck disable=SC2034	# for the caller
	iops=$(calc "$sum * 1e6 / $us" 1)
}
