#!/bin/bash
# vm: --icount
#
# Weights that are changed under load: the new shares hold from 100 ms after the
# message on. The threshold is the disk's depth, then automatic.

# shellcheck source=tests/lib/figures.sh
. "$(dirname "$0")/../lib/figures.sh"

N=16
WINDOWS=12
WINDOW_MS=100

# Within a window of I/Os that each move the share by 1 / I/Os a group may be ahead by
# what is in flight (4) and an I/O at each end. At 390 I/Os this is 1.5 pp.
BOUND=2

# count: sets $now to "<I/Os of device 1> <I/Os of device 2> <time in us>", as the
# target has sent them on. One dmsetup, so that both are from the same time.
count() {
	local name f
	now=()
	while read -r name f; do
		read -ra f <<<"$f"
		# start length ioband domain -1 reads held sectors writes
		[[ $name == share1: ]] && now[0]=$((f[5] + f[8]))
		[[ $name == share2: ]] && now[1]=$((f[5] + f[8]))
	done < <(dmsetup status --target ioband)
	now[2]=${EPOCHREALTIME/./}
}

# change WEIGHT-1 WEIGHT-2: sends the messages (where a weight is new), and looks at
# the windows that follow.
change() {
	local text want i a b us ended log=() share off worst=0 all=""
	text="weights $1:$2, $(threshold "$throttle")"

	[[ $1 == "${weight[0]}" ]] || dmsetup message share1 0 weight "$1" || trouble message
	[[ $2 == "${weight[1]}" ]] || dmsetup message share2 0 weight "$2" || trouble message
	weight=("$1" "$2")
	ended=${EPOCHREALTIME/./}
	for ((i = 1; i <= WINDOWS; i++)); do
		# To the end of the window, whatever the last step took.
		us=$((ended + i * WINDOW_MS * 1000 - ${EPOCHREALTIME/./}))
		((us <= 0)) || sleep "$(printf '0.%06d' $us)"
		count
		log+=("${now[*]}")
	done

	# From the end of the first window on.
	want=$(calc "100 * $1 / ($1 + $2)")
	for ((i = 1; i < WINDOWS; i++)); do
		read -r a b _ < <(difference "${log[i - 1]}" "${log[i]}")
		share=$(calc "100 * $a / ($a + $b)")
		off=$(calc "$share > $want ? $share - $want : $want - $share")
		worst=$(calc "$off > $worst ? $off : $worst")
		all+=" $share"
	done
	read -r a b us < <(difference "${log[0]}" "${log[WINDOWS - 1]}")
	share=$(calc "100 * $a / ($a + $b)")
	figure "$text from 100 ms after the message on" "want_percent=$want" \
		"share_percent=$share" "worst_window_pp=$worst" "windows_percent=${all# }" \
		"iops=$(calc "1e6 * ($a + $b) / $us" 1)"
	check "$text: within $BOUND pp in each window of $WINDOW_MS ms" "w <= b" "w=$worst" "b=$BOUND"
	check "$text: within 0.5 pp over all of them" "s >= w - 0.5 && s <= w + 0.5" \
		"s=$share" "w=$want"
}

# difference COUNT COUNT: I/Os of both devices, and microseconds, in between.
difference() {
	local from to
	read -ra from <<<"$1"
	read -ra to <<<"$2"
	echo $((to[0] - from[0])) $((to[1] - from[1])) $((to[2] - from[2]))
}

make_disk 4 1000000
for throttle in 4 0; do
	weight=(200 100)
	make_ioband "$throttle" "${weight[@]}"
	start_load "${devices[0]}" randread $N -- "${devices[1]}" randread $N
	settle "$throttle"

	change 200 100	# no change, to begin with
	change 100 300
	change 900 300
	change 1 300
	change 32767 32767

	stop_load
	remove_devices
done
remove_disk

figures_done
