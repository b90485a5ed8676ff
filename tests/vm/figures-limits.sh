#!/bin/bash
# vm: --icount
#
# A limit of ioband's and the block layer's own, io.max, on the same load: a cgroup's I/O to a
# whole disk, where both can do it. How exact they are over all, and in the worst second.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

TRACING=/sys/kernel/tracing
CGROUPS=/sys/fs/cgroup
CGROUP=$CGROUPS/figures
MAX="rbps=max wbps=max riops=max wiops=max"

# limit METHOD KEY=VALUE...: of the cgroup
limit() {
	case $1 in
	ioband) dmsetup message limited 0 limit /figures "${@:2}" ;;
	io.max) echo "$devno ${*:2}" >$CGROUP/io.max ;;
	esac || trouble "$1 refuses ${*:2}"
}

# sent SECONDS RATE UNIT: sets $got to "<units a second> <deviation from RATE in %> <the same in
# the worst second> <I/Os>", from now on. Seen is each I/O on its way to the disk, whole and
# once it has passed the limit.
sent() {
	echo >"$TRACING/trace"
	echo 1 >"$TRACING/events/block/block_bio_queue/enable"
	echo begin >"$TRACING/trace_marker"
	sleep "$1"
	sleep 0.01
	echo 0 >"$TRACING/events/block/block_bio_queue/enable"
	grep -q 'entries-in-buffer/entries-written: \([0-9]*\)/\1 ' "$TRACING/trace" || trouble "the trace has lost something"
	got=$(awk -v seconds="$1" -v rate="$2" -v unit="$3" '
		function off(x) { x = 100 * (x - rate) / rate; return x < 0 ? -x : x }
		function time(s) { sub(/:$/, "", s); return s + 0 }
		/ tracing_mark_write: begin/ { start = time($(NF - 2)) }
		# "<task>-<pid> [000] ..... 12.345678: block_bio_queue: 252,0 R 64 + 8 [fio]"
		start && / block_bio_queue: / {
			for (i = NF; $i != "block_bio_queue:"; i--)
				;
			at = time($(i - 1))
			if (at > start + seconds)
				exit
			t[++n] = at
			sum[n] = sum[n - 1] + (unit == "bytes" ? 512 * $(i + 5) : 1)
			while (t[n] - t[first + 1] >= 1)
				first++
			if (at >= start + 1) {
				# The second that ends with this I/O, and the one before it.
				if (off(sum[n] - sum[first]) > worst)
					worst = off(sum[n] - sum[first])
				if (first && off(sum[n - 1] - sum[first]) > worst)
					worst = off(sum[n - 1] - sum[first])
			}
		}
		END { printf "%.1f %.3f %.3f %d\n", sum[n] / seconds, off(sum[n] / seconds), worst, n }' "$TRACING/trace")
}

# series TEXT RW SIZE MAX_KB STEP...: STEP is "RATE UNIT SECONDS KEY=VALUE...", one after the other
# under load, by both methods; a key stays until another step has it. MAX_KB is the disk's largest request, 0 for what it has.
series() {
	local text=$1 rw=$2 size=$3 max_kb=$4 method step a b dev name rate off worst n i
	local -A result
	shift 4
	for method in ioband io.max; do
		make_disk 32 100000
		devno=$(<"/sys/block/$disk/dev")
		echo "dev == $(((${devno%:*} << 20) | ${devno#*:}))" >"$TRACING/events/block/block_bio_queue/filter"
		((max_kb == 0)) || echo "$max_kb" >"/sys/block/$disk/queue/max_sectors_kb"
		mkdir $CGROUP || trouble "no cgroup"
		dev=$disk
		if [[ $method == ioband ]]; then
			dmsetup create limited --table \
				"0 $sectors ioband /dev/$disk figures 32 0 cgroup weight 0 :100 /figures:100" ||
				trouble "dmsetup create"
			dev=$(dmsetup info -c --noheadings -o blkdevname limited)
		fi
		echo $$ >$CGROUP/cgroup.procs
		start_load "$dev" "$rw" 1 --bs="$size" --ioengine=libaio --iodepth=8 --iodepth_batch_complete_max=8 --zero_buffers
		echo $$ >$CGROUPS/cgroup.procs
		i=0
		for step; do
			read -ra a <<<"$step"
			limit "$method" "${a[@]:3}"
			sleep $RAMP
			sent "${a[2]}" "${a[0]}" "${a[1]}"
			result[$method.$((i++))]=$got
		done
		# shellcheck disable=SC2086
		limit "$method" $MAX
		stop_load
		remove_devices
		remove_disk
		rmdir $CGROUP || trouble "the cgroup is in use"
	done
	i=0
	for step; do
		read -ra a <<<"$step"
		name="$text, $rw $size, ${a[*]:3}"
		read -r rate off worst n <<<"${result[ioband.$i]}"
		read -ra b <<<"${result[io.max.$i]}"
		i=$((i + 1))
		figure "$name" "unit=${a[1]}" "wanted=${a[0]}" "ioband=$rate" "io_max=${b[0]}" "ioband_off_percent=$off" \
			"io_max_off_percent=${b[1]}" "ioband_worst_second_percent=$worst" \
			"io_max_worst_second_percent=${b[2]}" "ioband_ios=$n" "io_max_ios=${b[3]}"
		check "$name: within 1 %" "o <= 1" "o=$off"
		check "$name: as exact as io.max" "o <= m + 0.1" "o=$off" "m=${b[1]}"
		# If io.max is far off over all, its seconds tell nothing.
		check "$name: as exact as io.max in the worst second" "w <= m + 0.1 || o > 10" \
			"w=$worst" "m=${b[2]}" "o=${b[1]}"
	done
}

echo 16384 >"$TRACING/buffer_size_kb"
echo mono >"$TRACING/trace_clock"
echo +io >$CGROUPS/cgroup.subtree_control || trouble "no io controller"

RAMP=2
series steady randread 4k 0 "1048576 bytes 20 rbps=1048576" "10485760 bytes 5 rbps=10485760"
series steady randwrite 64k 0 "10485760 bytes 20 wbps=10485760" "104857600 bytes 5 wbps=104857600"
series steady randread 1m 0 "104857600 bytes 10 rbps=104857600" "1000000000 bytes 3 rbps=1000000000"
series steady randread 4k 0 "100 ios 20 riops=100" "1000 ios 10 riops=1000"
series steady randwrite 64k 0 "500 ios 10 wiops=500"
series "both limits" randread 16k 0 "1638400 bytes 10 rbps=1638400 riops=1000" "50 ios 20 rbps=1638400 riops=50"
series "pieces of 4 KiB" randwrite 256k 4 "8388608 bytes 20 wbps=8388608" \
	"8388608 bytes 20 wbps=8388608 wiops=1000000"
# From the very change on. The first one is from no limit.
RAMP=0
series changed randwrite 4k 0 "1048576 bytes 10 wbps=1048576" "4194304 bytes 10 wbps=4194304" \
	"1048576 bytes 10 wbps=1048576"
series changed randread 4k 0 "1000 ios 10 riops=1000" "100 ios 10 riops=100" "1000 ios 10 riops=1000"

figures_done
