# SPDX-License-Identifier: GPL-2.0-only
# Makes Markdown of what bench/guest measured; bench/report calls it with a
# <kernel>.json as input.

def list: rtrimstr(",") | split(",") | map(tonumber);
def round1: if . == null then "" else (. * 10 | round / 10 | tostring
	| if test("\\.") then . else . + ".0" end) end;
def round2: if . == null then "" else (. * 100 | round / 100 | tostring) end;
def round0: if . == null then "" else (round | tostring) end;
def abs: if . < 0 then -. else . end;
def row: "| " + join(" | ") + " |";
# A table from rows of cells, the first row is its head.
def table: (.[0] | row), (.[0] | map("---") | row), (.[1:][] | row), "";
# Groups in the order of their first appearance.
def groups(f): reduce .[] as $x ({keys: [], of: {}};
	($x | f | tostring) as $k
	| (if .of[$k] then . else .keys += [$k] end) | .of[$k] += [$x])
	| .of as $of | .keys | map($of[.]);
def unique_in_order: reduce .[] as $x ([]; if index([$x]) then . else . + [$x] end);

def name: {
	"none": "no control", "linear": "dm-linear", "ioband-auto": "ioband, automatic",
	"ioband-set": "ioband, set", "ioband-cgroup": "ioband, cgroups", "iocost": "iocost, no QoS",
	"iocost-qos": "iocost, QoS", "iocost-qos-none": "iocost, QoS, no scheduler", "bfq": "BFQ", "bfq-strict": "BFQ, strict", "iomax": "io.max",
	"mq-deadline": "mq-deadline", "kyber": "Kyber", "alone": "reader alone" }[.] // .;
def disk: {
	"4x1ms": "4 deep, 1 ms", "1x4ms": "1 deep, 4 ms", "32x2ms": "32 deep, 2 ms",
	"128x4ms": "128 deep, 4 ms", "cpu": "128 deep, 10 us", "fast": "8 deep, 200 us", "40MBps": "40 MB/s, 64 deep" }[.] // .;

# Places of the disk that the jobs don't fill: nobody contends.
def places: {"4x1ms": 4, "1x4ms": 1, "32x2ms": 32, "128x4ms": 128}[.];
def contended: (.weights | list | length) * .n > (.disk | places);

# Shares of a figure in %, what they should be, and how far off the worst is.
def shares: (.ios | list) as $i | ($i | add) as $s | $i | map(100 * . / $s);
def wanted: (.weights | list) as $w | ($w | add) as $s | $w | map(100 * . / $s);
def off: [shares, wanted] | transpose | map((.[0] - .[1]) | abs) | max;

# What is compared: an object for each row of a table and each measure
#   {table, row, measure, better: "low" or "high", slack, unit, values: {control: value}}
# A peer is better if it is so by more than slack than the best of ioband's with
# a table line of its own: automatic and set threshold.
def peers: ["iocost", "iocost-qos", "iocost-qos-none", "bfq", "bfq-strict", "iomax", "mq-deadline", "kyber"];
def better: . as $m
	| [.values["ioband-auto"], .values["ioband-set"] | values] as $own
	| select($own | length > 0)
	| (if .better == "low" then $own | min else $own | max end) as $best
	| [peers[] | . as $p | select($m.values[$p] != null)
	   | select(if $m.better == "low" then $m.values[$p] < $best - $m.slack
		    else $m.values[$p] > $best + $m.slack end)
	   | {peer: ., value: $m.values[.]}] as $winners
	| $m + {best: $best, winners: $winners};

def values_of(f): map({key: .control, value: f}) | from_entries;

# Rows of shares, with what no control did in the same row for the sums.
def share_rows($t): [.figures[] | select(.figure == $t)]
	| groups([.disk, .weights, .rw, .n])
	| map((map(select(.control == "none")) | .[0].iops) as $none | map(. + {none: $none}));
def caption: "\(.disk | disk), \(.weights | list | map(tostring) | join(":")), \(.n) jobs each, \(.rw | split(",") | join("/"))";
def share_measures($t): share_rows($t)[]
	| {table: $t, row: (.[0] | caption)} as $m
	| (select(.[0] | contended)
	   | $m + {measure: "off by", unit: "pp", better: "low", slack: 0.1, values: values_of(off)}),
	  (if .[0].none then
	      $m + {measure: "sum", unit: "% of no control", better: "high", slack: 0.5,
		    values: values_of(100 * .iops / .none)}
	   else
	      $m + {measure: "sum", unit: "I/O/s", better: "high", slack: (0.005 * .[0].iops),
		    values: values_of(.iops)}
	   end);

# After how many ms from the message on each window is within 2 points of 25 %; null if
# not for a second at least.
def steady($n): . as $s | [range(0; length - $n + 1; $n) as $i | $s[$i:$i + $n] | add / $n];
def settled($windows): .before as $b | (.shares | list)[$b:] | steady($windows)
	| (to_entries | map(select((.value - 25) | abs > 2)) | if length == 0 then 0 else .[-1].key + 1 end) as $n
	| if $n * $windows > length * $windows - 10 then null else $n * $windows * 100 end;
def last_mean: (.shares | list)[-20:] | add / length;

def bytes_off: (.bytes | list) | (100 * .[0] / add - 50) | abs;

def measures:
	share_measures("A1", "A2", "B1"),
	([.figures[] | select(.figure == "B2")] | select(length > 0)
	 | {table: "B2", row: "200:100 becomes 100:300", measure: "holds after", unit: "ms", better: "low", slack: 0,
	    values: values_of(settled(1) // 1e9)}),
	([.figures[] | select(.figure == "C1" and .control != "alone")] | select(length > 0)
	 | (map(select(.control == "none")) | .[0].others) as $none
	 | {table: "C1", row: "reader beside 8 jobs"} as $m
	 | ($m + {measure: "P99", unit: "ms", better: "low", slack: 0.02, values: values_of(.p99)}),
	   ($m + {measure: "the others", unit: "% of no control", better: "high", slack: 0.5,
		  values: values_of(100 * .others / $none)})),
	([.figures[] | select(.figure == "D1")] | select(length > 0)
	 | {table: "D1", row: "depth 32, alone", measure: "rate", unit: "I/O/s", better: "high", slack: 0,
	    values: values_of(.iops)}),
	([.figures[] | select(.figure == "D2")] | select(length > 0)
	 | {table: "D2", row: "two groups of depth 32"} as $m
	 | ($m + {measure: "cost", unit: "instructions an I/O", better: "low", slack: 100, values: values_of(.instructions)}),
	   ($m + {measure: "rate", unit: "I/O/s", better: "high", slack: (0.005 * .[0].iops), values: values_of(.iops)})),
	([.figures[] | select(.figure == "M1")] | select(length > 0)
	 | {table: "M1", row: "4 KiB against 256 KiB"} as $m
	 | ($m + {measure: "off by", unit: "pp", better: "low", slack: 0.1, values: values_of(bytes_off)}),
	   ($m + {measure: "sum", unit: "MB/s", better: "high", slack: 0.2, values: values_of(.MBps)}));

def shown($m): . as $v | if $v > 1e8 then "never" elif $m.unit == "I/O/s" then $v | round0 else $v | round2 end;

def verdict($t): [measures | select(.table == $t) | better] as $all
	| if ($all | length) == 0 then empty
	  else
		([$all[] | select(.winners | length > 0)] | length) as $n
		| (if $n == 0 then "No peer is better than ioband in any of the \($all | length) comparisons."
		   else "Where a peer is better than ioband (\($n) of \($all | length) comparisons):" end), "",
		  ($all[] | select(.winners | length > 0) | . as $m
		   | "* \(.row): \(.measure) "
		     + ([.winners[] | "\(.peer | name) \(.value | shown($m))"] | join(", "))
		     + ", ioband \(.best | shown($m)) (\(.unit))"), ""
	  end;

def controls: map(.control) | unique_in_order;

# Cells by row and control.
def pivot($heads; f): . as $rows
	| ([$rows[][]] | controls) as $c
	| [$heads + ($c | map(name))] + [$rows[] | . as $r
		| ($r[0] | [.row_head] | flatten)
		  + [$c[] | . as $k | [$r[] | select(.control == $k)] | if length > 0 then .[0] | f else "" end]]
	| table;

def made($t): (if $t == "D3" then "bench/run --smp" elif .figures[0].mode == "quick" then "bench/run --quick \($t)"
		else "bench/run \($t)" end) as $alone
	| "Made by `\(.command)`" + (if $alone == .command then "." else "; `\($alone)` measures it alone." end), "";

def has_table($t): any(.figures[]; .figure == $t);
def section($t; f): if has_table($t) then f else empty end;

def a1: share_rows("A1") | groups(.[0] | [.disk, .rw])[]
	| "Disk \(.[0][0].disk | disk), \(.[0][0].rw | split(",") | join(" against ")):", "",
	  (map(map(. + {row_head: (.n | tostring)}))
	   | pivot(["jobs each"]; "\(shares[0] | round1) / \(100 * .iops / .none | round1)"));

def a2: share_rows("A2") | map(map(. + {row_head: [(.n | tostring), (.rw | split(",") | join(", "))]}))
	| pivot(["jobs each", "40, 20, 10 do"];
		(shares | map(round1) | join(" ")) + " / \(100 * .iops / .none | round1)");

def b1: share_rows("B1") | map(map(. + {row_head: [(.weights | list | map(tostring) | join(":")),
		(wanted | map(round1) | join(" ")), "\(.n), \(.disk | disk)"]}))
	| pivot(["weights", "should be", "jobs each"]; (shares | map(round1) | join(" ")) + " / \(.iops | round0)");

def b2: [.figures[] | select(.figure == "B2")]
	| [["", "holds after", "in windows of 500 ms", "mean of the last 2 s (25.0)", "the first ten windows after the message"]]
	  + map(. as $f | [(.control | name), (settled(1, 5) | if . == null then "not within 2 s" elif . == 0 then "at once" else "\(.) ms" end),
		 (last_mean | round1), ((.shares | list)[$f.before:$f.before + 10] | map(round1) | join(" "))])
	| table;

def c1: [.figures[] | select(.figure == "C1")]
	| (map(select(.control == "none")) | .[0].others) as $none
	| (map(select(.control == "none")) | .[0] | .others + .reader) as $all
	| [["", "P50 ms", "P99 ms", "P99.9 ms", "reader I/O/s", "others I/O/s", "others, % of no control", "all, % of no control"]]
	  + map([(.control | name), (.p50 | round2), (.p99 | round2), (.p999 | round2), (.reader | round0),
		 (.others | round0), (if .control == "alone" then "" else 100 * .others / $none | round1 end),
		 (if .control == "alone" then "" else 100 * (.others + .reader) / $all | round1 end)])
	| table;

# A reader that is as fast as alone takes from the others what it didn't get before.
def left_to_the_others: (map(select(.control == "none")) | .[0]) as $none | (map(select(.control == "alone")) | .[0]) as $alone
	| if $none and $alone then
		" A reader as fast as alone leaves \(100 * ($none.others + $none.reader - $alone.reader) / $none.others | round1) % to the others at most."
	  else "" end;

def cost($t): [.figures[] | select(.figure == $t)]
	| (map(select(.control == "none")) | .[0]) as $none
	| (map(select(.control == "linear")) | .[0]) as $linear
	| [["", "I/O/s", "% of no control", "% of dm-linear", "instructions an I/O", "more than no control", "processor idle, %"]
	   + if $t == "D2" then ["share of 200 (66.7)"] else [] end]
	  + map([(.control | name), (.iops | round0), (100 * .iops / $none.iops | round1),
		 (if $linear then 100 * .iops / $linear.iops | round1 else "" end),
		 (.instructions | tostring), (.instructions - $none.instructions | tostring), (.idle_percent | tostring)]
		 + if $t == "D2" then [shares[0] | round1] else [] end)
	| table;

def most_often: group_by(.) | max_by(length) | .[0];
def d4: [.figures[] | select(.figure == "D4")] | groups(.disk)
	| map((map(select(.control == "none")) | .[0].iops) as $none | .[]
	      | (.depths | rtrimstr(",") | if . == "" then [] else split(",") | map(tonumber) end) as $d
	      | ($d[-10:] | most_often) as $found
	      | [(.disk | disk), (.n | tostring), (.control | name), (shares[0] | round1), (100 * .iops / $none | round1),
		 (if $found then ($found | tostring) else "" end),
		 (if $found then "\(100 * (($d | index([$found])) + 1)) ms" else "" end)])
	| [["disk", "jobs each", "", "share of 200 (66.7)", "sum, % of no control", "depth found", "first after"]] + .
	| table;

def m1: [.figures[] | select(.figure == "M1")]
	| [["", "bytes of the 4 KiB group, %", "MB/s in all"]]
	  + map([(.control | name), ((.bytes | list) | 100 * .[0] / add | round1), (.MBps | round1)])
	| table;

def median: sort | .[(length - 1) / 2 | floor];

# $x[round] / $y[round], the one in the middle.
def paired($x; $y): [range($x | length) | $x[.] / $y[.]] | median;
def d3: [.figures[] | select(.figure == "D3")]
	| (map({key: "\(.jobs) \(.control)", value: (.iops | list)}) | from_entries) as $of
	| [["", "one job, I/O/s", "two jobs, I/O/s", "one job, of dm-linear's", "two jobs, of dm-linear's", "two of one, of dm-linear's"]]
	  + (["linear", "ioband-auto", "ioband-set"] | map($of["1 \(.)"] as $one | $of["2 \(.)"] as $two
		| $of["1 linear"] as $linear_one | $of["2 linear"] as $linear_two
		| [name, ($one | median | round0), ($two | median | round0), (paired($one; $linear_one) | round2), (paired($two; $linear_two) | round2),
		   (paired([range($one | length) | $two[.] / $one[.]]; [range($one | length) | $linear_two[.] / $linear_one[.]]) | round2)]))
	| table;

def chapter($t; $title; $text; f): section($t;
	"### \($t). \($title)", "", $text, "", made($t), f, verdict($t));

# What tells most of all tables, a row for each controller that knows weights.
def glance: [measures] as $m | .figures as $f
	| def found($c; $tables; $measure): [$m[] | select((.table | IN($tables[])) and .measure == $measure) | .values[$c] | values];
	  def instructions($c): [$f[] | select(.figure == "D1" and .control == $c) | .instructions] | .[0];
	  def contended($c): [$f[] | select(.figure == "D2" and .control == $c) | .iops] | .[0];
	  [["", "shares off, worst (pp)", "median (pp)", "least sum, % of no control", "changed weight holds after", "P99 of a reader beside deep queues (ms)",
	    "I/Os of the others there, % of no control", "uncontended, instructions more", "contended, I/O/s"]]
	  + [("none", "ioband-auto", "ioband-set", "iocost", "iocost-qos", "bfq") as $c
	     | found($c; ["A1", "A2", "B1"]; "off by") as $off
	     | [($c | name),
		($off | if . == [] then "" else max | round2 end), ($off | if . == [] then "" else median | round2 end),
		(found($c; ["A1", "A2"]; "sum") | min | round1),
		(found($c; ["B2"]; "holds after") | .[0] | if . == null then "" elif . > 1e8 then "never" else "\(.) ms" end),
		(found($c; ["C1"]; "P99") | .[0] | round2), (found($c; ["C1"]; "the others") | .[0] | round1),
		(instructions($c) | if . then . - instructions("none") | tostring else "" end), (contended($c) | round0)]]
	| table;

def picture($name; $text): "![\($text)](\(.kernel)-\($name).svg)", "";

"## Kernel \(.kernel)", "",
"\(.release), QEMU \(.qemu), \(.fio); made by `\(.command)`.", "",
"### At a glance", "",
"The worst and the median of how far off a share is are those of all rows of A1, A2 and B1 in which the groups contend, the sum is that of A1 and A2, the others are from B2, C1, D1 and D2. An empty cell wasn't measured.", "",
glance,
([measures | better] | group_by(.table)
 | [["table", "comparisons", "a peer is better in"]]
   + map([.[0].table, (length | tostring), ([.[] | select(.winners | length > 0)] | length | tostring)])
 | table),
chapter("A1"; "Two groups, weights 200:100";
	"4 KiB at random, each job waits for its I/O. Cells: share of the group of weight 200 in % (should be 66.7) / all I/Os in % of no control's. One job each on the disk that is 4 deep doesn't fill it: nobody contends, and all should be equal. io.max has fixed limits, computed from what no control did in the same row, and gives nobody what another leaves.";
	a1, picture("shares"; "Shares under each controller")),
chapter("A2"; "Three groups, weights 40:20:10";
	"Disk 4 deep, 1 ms, 4 KiB at random. Cells: shares in % (should be 57.1 28.6 14.3) / sum in % of no control's."; a2),
chapter("B1"; "Ratios";
	"4 KiB at random readers. Cells: shares in % / I/Os a second in all."; b1),
chapter("B2"; "A weight that changes under load";
	"16 readers each, disk 4 deep, 1 ms; 200:100 becomes 100:300. Shares of the first group in windows of 100 ms (about 390 I/Os); a share \"holds\" from the first window on after which each is within 2 points of 25 %. BFQ serves one group at a time for a while, which windows of 100 ms show.";
	b2, picture("change"; "Share of the first group in each 100 ms")),
chapter("C1"; "A reader beside deep queues";
	"A 4 KiB reader of depth 1 and weight 1000 beside 8 jobs of 64 KiB at depth 128, together of weight 100; disk 4 deep, 1 ms whatever the size. With io.max the others have a limit of three quarters of the disk, set by hand, and the reader has none. mq-deadline and Kyber know no weights.\([.figures[] | select(.figure == "C1")] | left_to_the_others)";
	c1, picture("latency"; "P99 of the reader against what the others do")),
chapter("D1"; "Cost where nobody contends";
	"One group, depth 32, 4 KiB at random, on a disk that takes 10 us (less than an I/O costs the processor) and 128 at a time. In this machine an instruction of its one processor takes a nanosecond, so the time that the processor was busy, divided by the I/Os, is the instructions for an I/O, with those of fio and of the disk's driver in it. The next column is what that is more than without control. ioband is a device-mapper target, and most of its cost is what dm-linear costs. iocost with QoS has mq-deadline below.";
	cost("D1"), picture("cost"; "Instructions for an I/O, more than without control")),
chapter("D2"; "Cost where all contend";
	"Two groups of weights 200:100, depth 32 each, on a disk that takes 200 us and 8 at a time: 40000 I/Os a second, less than the processor manages. So nearly all I/O has to wait for its turn, and is counted with what that costs: the time that the processor was busy, divided by the I/Os, is the instructions for an I/O.";
	cost("D2")),
chapter("D3"; "Two processors, real time";
	"An emulated machine with two processors and its host's clock, a disk of 10 us, depth 32 for each job. Medians of seven rounds; the ratios are of two runs of the same round. These figures bend with the host's load: single runs of one job differ by up to a factor of two on a busy host."; d3),
chapter("D4"; "The automatic threshold";
	"Readers of 4 KiB, weights 200:100, nothing set. Depth found: the one most often in force in the third second; first after: when it was so for the first time."; d4),
chapter("M1"; "4 KiB against 256 KiB";
	"Equal weights, depth 64 in each group, a disk that does 40 MB/s. Each should have half of the bytes. ioband's policy is weight-iosize."; m1),
"### Settings", "",
([.figures[] | select(.figure == "model")]
 | [["disk", "io.cost.model, measured with fio in the same boot as tools/cgroup/iocost_coef_gen.py does"]] + map([(.disk | disk), .model])
 | if length > 1 then table else empty end),
([.figures[] | select(.figure == "settings")] | groups([.control, .settings])
 | [["", "settings", "disks"]] + map([(.[0].control | name), .[0].settings, (map(.disk | disk) | join("; "))])
 | table)
