// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finding the depth of a disk: readers that wait for their I/O, two groups of
 * weights 200 and 100, on disks of all kinds. Each run is compared with the same
 * readers without control.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "sim.h"

#define THINK_NS	20000
#define WORKER_NS	3000
#define NR_RUNS		3
/* Few I/Os, of which each takes another time. */
#define NR_ROTATING	12

/* A disk and two groups of readers, for so long. */
struct setup {
	struct sim_disk disk;
	u32 readers[2];
	u32 weights[2];
	u32 sectors[2];		/* 0 for 4 KiB */
	u64 think_ns;
	const char *policy;
	u64 run_ns;
};

/* What is counted begins after the first third. */
static struct sim *run(const struct setup *setup, u32 depth, u32 seed,
		       bool control)
{
	struct sim_config c = {
		.seed		= seed,
		.no_control	= !control,
		.depth		= depth,
		.carryover	= IOBAND_CARRYOVER_DEFAULT,
		.send_ns	= WORKER_NS,
		.disk		= setup->disk,
		.nr_groups	= 2,
		.weights	= { setup->weights[0], setup->weights[1] },
		.policy		= ioband_policy_find(setup->policy),
		.nr_loads	= 2,
	};
	struct sim *s;
	u32 i;

	for (i = 0; i < 2; i++) {
		c.loads[i].group = i;
		c.loads[i].kind = SIM_READERS;
		c.loads[i].n = setup->readers[i];
		c.loads[i].think_ns = setup->think_ns;
		c.loads[i].min_sectors = setup->sectors[i];
		c.loads[i].max_sectors = setup->sectors[i];
		c.loads[i].think_jitter_pct = 50;
		c.loads[i].prio = IOBAND_PRIO_BE;
		/* Only writes make a disk stall. */
		c.loads[i].write_pct = setup->disk.stall_every ? 100 : 0;
	}
	s = sim_new(&c);
	sim_run(s, setup->run_ns / 3);
	sim_reset_counts(s);
	sim_run(s, setup->run_ns);
	return s;
}

#define DEFAULTS \
	.weights = { 200, 100 }, .think_ns = THINK_NS, .policy = "default"

#define EVEN(n, ns, pct) {						\
	.servers = n, .read_ns = ns, .jitter_pct = pct }
#define CHANGES(n, ns, pct, to_pct) {					\
	.servers = n, .read_ns = ns, .jitter_pct = pct,			\
	.change_ns = 3 * SEC, .change_pct = to_pct }
#define FLASH(every) {							\
	.kind = DISK_CHANNELS, .servers = 8, .read_ns = 80000,		\
	.jitter_pct = 30, .stall_every = every }
#define ROTATING { .kind = DISK_ROTATES }

static const struct depth_row {
	const char *name;
	struct sim_disk disk;
	u32 readers[2];
	u32 least, most;	/* depth found */
	u32 share;		/* of the first, in 1/100 %; 0: not contended */
	u32 off;		/* by so much at most */
	u32 sum;		/* of no control, in 1/100 %, at least */
} depth_rows[] = {
	{ "depth: 1 server, 1 each", EVEN(1, 4000000, 0), { 1, 1 },
	  1, 1, 6667, 50, 9900 },
	{ "depth: 1 server, 4 each", EVEN(1, 4000000, 0), { 4, 4 },
	  1, 1, 6667, 20, 9900 },
	{ "depth: 1 server, 16 each, uneven", EVEN(1, 4000000, 50),
	  { 16, 16 }, 1, 4, 6667, 20, 9850 },
	{ "depth: 4 servers, 1 each", EVEN(4, 1000000, 0), { 1, 1 },
	  2, 4, 0, 0, 9900 },
	{ "depth: 4 servers, 4 each", EVEN(4, 1000000, 0), { 4, 4 },
	  4, 5, 6667, 60, 9880 },
	{ "depth: 4 servers, 4 each, uneven", EVEN(4, 1000000, 50),
	  { 4, 4 }, 4, 5, 6667, 50, 9850 },
	{ "depth: 4 servers, 16 each", EVEN(4, 1000000, 0), { 16, 16 },
	  4, 5, 6667, 20, 9900 },
	{ "depth: 4 servers, 16 each, uneven", EVEN(4, 1000000, 50),
	  { 16, 16 }, 4, 10, 6667, 20, 9900 },
	{ "depth: 32 servers, 16 each", EVEN(32, 2000000, 30),
	  { 16, 16 }, 16, 32, 0, 0, 9900 },
	{ "depth: 32 servers, 64 each", EVEN(32, 2000000, 30),
	  { 64, 64 }, 28, 64, 6667, 20, 9900 },
	{ "depth: 128 servers, 64 each", EVEN(128, 2000000, 50),
	  { 64, 64 }, 64, 128, 0, 0, 9900 },
	{ "depth: 128 servers, 128 each", EVEN(128, 2000000, 0),
	  { 128, 128 }, 120, 160, 6667, 50, 9880 },
	{ "depth: 128 servers, 200 each, uneven", EVEN(128, 2000000, 50),
	  { 200, 200 }, 110, 256, 6667, 50, 9880 },
	/* All of the two's I/O is inside: it gets what two can get. */
	{ "depth: 32 servers, 2 against 32", EVEN(32, 2000000, 30),
	  { 2, 32 }, 28, 34, 0, 0, 9850 },
	/*
	 * Depth buys throughput and sells the share of whoever has little I/O
	 * inside: as deep as the shares hold.
	 */
	{ "depth: rotating, 1 each", ROTATING, { 1, 1 },
	  1, 1, 6667, 100, 9700 },
	{ "depth: rotating, 4 each", ROTATING, { 4, 4 },
	  2, 6, 6667, 200, 7900 },
	{ "depth: rotating, 16 each", ROTATING, { 16, 16 },
	  12, 24, 6667, 200, 8800 },
	{ "depth: rotating, 64 each", ROTATING, { 64, 64 },
	  16, 96, 6667, 200, 9500 },
	{ "depth: 8 channels, 16 each",
	  FLASH(0), { 16, 16 },
	  12, 24, 6667, 50, 9000 },
	{ "depth: 8 channels, 64 each",
	  FLASH(0), { 64, 64 },
	  24, 110, 6667, 100, 9500 },
	{ "depth: 8 channels that stall, 64 each",
	  FLASH(500), { 64, 64 },
	  24, 110, 6667, 100, 9000 },
	{ "depth: four times slower in mid-run",
	  CHANGES(4, 1000000, 30, 400), { 16, 16 },
	  4, 10, 6667, 30, 9850 },
	{ "depth: four times faster in mid-run",
	  CHANGES(4, 1000000, 30, 25), { 16, 16 },
	  4, 10, 6667, 30, 9850 },
};

/* Of all runs together, since a disk whose times vary gives varying sums. */
static void test_depth(void **state)
{
	const struct depth_row *row = *state;
	struct setup setup = {
		.disk		= row->disk,
		.readers	= { row->readers[0], row->readers[1] },
		DEFAULTS,
		/* A rotating disk does 100 to 200 I/Os a second. */
		.run_ns		= (row->disk.kind == DISK_ROTATES ? 100 : 6) *
				  SEC,
	};
	u64 bare = 0, done[2] = {}, sum, share, off;
	u32 i, found = 0, runs;
	struct sim *s;

	runs = row->disk.kind == DISK_ROTATES ? NR_ROTATING : NR_RUNS;
	for (i = 0; i < runs; i++) {
		s = run(&setup, 0, i, false);
		bare += s->groups[0].ios + s->groups[1].ios;
		sim_free(s);
		s = run(&setup, 0, i, true);
		done[0] += s->groups[0].ios;
		done[1] += s->groups[1].ios;
		found = s->sched.finder.found;
		sim_free(s);
		if (found < row->least || found > row->most)
			failf("the depth found, %u, isn't in %u to %u", found,
			      row->least, row->most);
	}
	sum = (done[0] + done[1]) * 10000 / bare;
	share = done[0] * 10000 / (done[0] + done[1]);
	print_message("# %-40s depth %u, share %llu.%02llu %%, sum %llu.%02llu %%\n",
		      row->name, found,
		      (unsigned long long)share / 100,
		      (unsigned long long)share % 100,
		      (unsigned long long)sum / 100,
		      (unsigned long long)sum % 100);
	off = share > row->share ? share - row->share : row->share - share;
	if (row->share && off > row->off)
		failf("the share is off by %llu/100 %%",
		      (unsigned long long)off);
	if (sum < row->sum)
		failf("the sum is below %u/100 %%", row->sum);
}

/*
 * Small I/O against large, both groups of the same weight by bytes. The disk does
 * its bytes in bursts, in which it is faster than the processor: the group of small
 * I/O runs out of it for a moment, and each large one that is let past it then is
 * worth 64 of them.
 */
static const struct sizes_row {
	const char *name;
	u32 sectors[2];
	u64 think_ns;
	u32 off;		/* in 1/100 % */
	u32 sum;		/* of no control, in 1/100 % */
} sizes_rows[] = {
	{ "depth by size: 4 KiB each", { 8, 8 }, THINK_NS, 20, 9900 },
	{ "depth by size: 4 KiB, 256 KiB", { 8, 512 }, THINK_NS, 100, 9900 },
	{ "depth by size: 4 KiB, 256 KiB, a slow processor", { 8, 512 },
	  1000000, 100, 9900 },
};

static void test_sizes(void **state)
{
	const struct sizes_row *row = *state;
	struct setup setup = {
		.disk		= { .kind = DISK_TICKS, .servers = 64,
				    .read_ns = 100000,
				    .bytes_per_sec = 40000000 },
		.readers	= { 64, 64 },
		.weights	= { 100, 100 },
		.sectors	= { row->sectors[0], row->sectors[1] },
		.think_ns	= row->think_ns,
		.policy		= "weight-iosize",
		.run_ns		= 12 * SEC,
	};
	u64 bytes[2], bare, sum, share;
	struct sim *s;
	u32 i, found;

	s = run(&setup, 0, 0, false);
	bare = s->groups[0].bytes[IOBAND_READ] + s->groups[1].bytes[IOBAND_READ];
	sim_free(s);
	s = run(&setup, 0, 0, true);
	for (i = 0; i < 2; i++)
		bytes[i] = s->groups[i].bytes[IOBAND_READ];
	found = s->sched.finder.found;
	sim_free(s);
	sum = (bytes[0] + bytes[1]) * 10000 / bare;
	share = bytes[0] * 10000 / (bytes[0] + bytes[1]);
	print_message("# %-50s depth %u, share %llu/100 %%, sum %llu/100 %%\n",
		      row->name, found, (unsigned long long)share,
		      (unsigned long long)sum);
	if (share + row->off < 5000 || share > 5000 + row->off)
		failf("the share is off by more than %u/100 %%", row->off);
	if (sum < row->sum)
		failf("the sum is below %u/100 %%", row->sum);
}

/*
 * A group of 64 readers; one of high weight with one reader comes and goes. Beside
 * it the depth is small, or its share would break; alone the disk is kept full. Each
 * depth is kept for the next time, so that the one that comes back has its share
 * from its first I/O on.
 */
static void test_alone(void **state)
{
	static const struct sim_config c = {
		.carryover	= IOBAND_CARRYOVER_DEFAULT,
		.send_ns	= WORKER_NS,
		.disk		= ROTATING,
		.nr_groups	= 2,
		.weights	= { 100, 200 },
		.nr_loads	= 2,
		.loads = {
			{ .group = 0, .kind = SIM_READERS, .n = 64,
			  .think_ns = THINK_NS },
			{ .group = 1, .kind = SIM_READERS, .n = 1,
			  .think_ns = THINK_NS, .on_ns = 100 * SEC,
			  .off_ns = 100 * SEC },
		},
	};
	struct sim *s = sim_new(&c);
	const struct ioband_share *first = &s->groups[0].share;
	u32 several, alone;
	u64 share;

	(void)state;
	sim_run(s, 99 * SEC);
	assert_null(ioband_alone(&s->sched));
	several = s->sched.finder.found;
	sim_run(s, 199 * SEC);
	assert_ptr_equal(ioband_alone(&s->sched), first);
	alone = s->sched.finder.found;
	print_message("# several: %u, alone: %u\n", several, alone);
	assert_in_range(several, 1, 3);
	assert_in_range(alone, 16, 128);

	/* The other one is back. */
	sim_run(s, 200 * SEC + MSEC);
	assert_null(ioband_alone(&s->sched));
	assert_int_equal(s->sched.finder.found, several);
	sim_run(s, 202 * SEC);
	sim_reset_counts(s);
	sim_run(s, 222 * SEC);
	share = s->groups[1].ios * 100 / (s->groups[0].ios + s->groups[1].ios);
	assert_in_range(share, 60, 67);

	/* And away, and a third time: both are known. */
	sim_run(s, 301 * SEC);
	assert_ptr_equal(ioband_alone(&s->sched), first);
	assert_in_range(s->sched.finder.found, alone * 3 / 4, 128);
	sim_free(s);
}

/* A depth that is set is kept, whatever the disk. */
static void test_depth_set(void **state)
{
	static const struct setup setup = {
		.disk		= { .servers = 4, .read_ns = 1000000 },
		.readers	= { 16, 16 },
		DEFAULTS,
		.run_ns		= NSEC_PER_SEC,
	};
	struct sim *s = run(&setup, 3, 0, true);

	(void)state;
	assert_int_equal(s->sched.depth, 3);
	sim_free(s);
}

/* The limit bounds what is found. */
static void test_depth_limit(void **state)
{
	struct ioband_depth d = {};
	u64 now = NSEC_PER_SEC;
	u32 i, depth = 1, most = 0;

	(void)state;
	/* An ideal disk: each doubling of the depth doubles the rate. */
	ioband_depth_start(&d, 6);
	for (i = 0; i < 100000; i++) {
		now += 1000000 / depth;
		depth = ioband_depth_done(&d, 1, 128, true, now);
		most = max(most, depth);
	}
	assert_int_equal(most, 6);
	assert_int_equal(d.found, 6);
	/* A lower limit takes at once what was found. */
	ioband_depth_start(&d, 4);
	assert_int_equal(d.depth, 4);
}

/*
 * The processor takes longer than the disk: from 2 on nothing is held and the
 * disk pauses after each I/O. It is faster all the same, for want of switches.
 */
static void test_depth_cpu_bound(void **state)
{
	struct ioband_depth d = {};
	u64 now = NSEC_PER_SEC;
	u32 i, depth = 1;

	(void)state;
	ioband_depth_start(&d, 128);
	for (i = 0; i < 2000; i++) {
		now += depth == 1 ? 18000 : 12000;
		depth = ioband_depth_done(&d, 1, 128, depth == 1, now);
		if (depth > 1)
			ioband_depth_idle(&d, false);
	}
	assert_in_range(d.found, 2, 128);
}

/*
 * From 9 on the disk's queue has no place, and nothing is gained there: each depth
 * above is tried once, for four blocks. Where deeper is faster all the same, since it
 * is others who have the places, it is taken.
 */
static void test_depth_stuck(void **state)
{
	struct ioband_depth d = {};
	u64 now = NSEC_PER_SEC;
	u32 i, others, depth, above;

	(void)state;
	for (others = 0; others < 2; others++) {
		memset(&d, 0, sizeof(d));
		ioband_depth_start(&d, 128);
		depth = 1;
		above = 0;
		for (i = 0; i < 20000; i++) {
			now += 8000000 / (others ? depth : min(depth, 8U));
			ioband_depth_sent(&d, 1, others || depth > 8);
			above += depth > 8;
			depth = ioband_depth_done(&d, 1, 128, true, now);
		}
		print_message("# stuck, %s: %u, %u I/Os above 8\n",
			      others ? "others" : "alone", d.found, above);
		if (others) {
			assert_int_equal(d.found, 128);
		} else {
			assert_int_equal(d.found, 8);
			assert_in_range(above, 1, 4 * (16 + 12 + 10 + 9));
		}
	}
}

/*
 * 8 I/Os in all, on a disk that takes 4 at a time and happens to be twice as fast
 * during the first trial with all of them inside. Nothing would be held there any
 * more, so no order kept, nor would it ever be noticed.
 */
static void test_depth_all_inside(void **state)
{
	struct ioband_depth d = {};
	u64 now = NSEC_PER_SEC;
	u32 i, depth = 1, lucky = 0;
	bool luck = true, all;

	(void)state;
	ioband_depth_start(&d, 128);
	for (i = 0; i < 20000; i++) {
		all = depth == 8;
		now += 4000000 / min(depth, 4U) / (all && luck ? 2 : 1);
		lucky += all && luck;
		d.sent++;
		d.dry += all;
		depth = ioband_depth_done(&d, 1, 8, !all, now);
		if (all && !d.trial)
			luck = false;
	}
	assert_in_range(lucky, 8 * 6, 8 * 128);
	assert_false(luck);
	assert_int_equal(d.found, 4);
}

/* 64 I/Os at a time, then nothing until all are done: from @n of them on @depth. */
static void batches(struct ioband_depth *d, u64 *now, u32 io_ns, u32 n, u32 depth)
{
	u32 i, left;

	for (i = 0; i < 100; i++) {
		for (left = 64; left; left--) {
			*now += io_ns / 2 + (i * 2654435761U >> 16) % io_ns;
			ioband_depth_done(d, 1, left, left > d->depth, *now);
		}
		ioband_depth_idle(d, false);
		*now += 100000;
		if (i >= n)
			assert_int_equal(d->depth, depth);
	}
}

/* More than enough all the time, on a fast disk that takes 4. */
static void plenty(struct ioband_depth *d, u64 *now, u32 ios)
{
	while (ios--) {
		*now += 20000 / min(d->depth, 4U);
		ioband_depth_done(d, 1, 200, true, *now);
	}
}

/*
 * Where the processor is the limit the rate doesn't depend on the depth, and a group
 * alone isn't held, whatever the noise. The found depth counts once there is always
 * more to do, or another group; and where a batch takes so long that a group that
 * comes would notice.
 */
static void test_depth_batches(void **state)
{
	struct ioband_depth d = {};
	u64 now = NSEC_PER_SEC;

	(void)state;
	ioband_depth_start(&d, 128);
	plenty(&d, &now, 20000);
	assert_int_equal(d.found, 4);
	ioband_depth_alone(&d, true);
	batches(&d, &now, 5000, 16, 128);
	/* Several at once: as before. */
	ioband_depth_alone(&d, false);
	assert_int_equal(d.depth, 4);
	ioband_depth_alone(&d, true);
	batches(&d, &now, 100000, 16, 128);
	plenty(&d, &now, 4 * 200 + 2 * 128);
	assert_int_not_equal(d.depth, 128);
	plenty(&d, &now, 20000);
	assert_int_equal(d.found, 4);
	/* Slow ones: whatever is found, but found. */
	batches(&d, &now, 500000, 100, 0);
	assert_int_equal(d.depth, d.trial ? d.trial : d.found);
}

/*
 * A group alone that sends @burst I/Os at a time and pauses, on a disk that takes
 * @slots at a time, @io_us each: in how many of 1000 bursts it isn't held at the end.
 */
static const struct burst_row {
	const char *name;
	u32 burst;
	u32 slots;
	u32 io_us;
	u32 least;
	u32 most;
	u32 first;
} burst_rows[] = {
	/* Three bursts are a habit, and it would be done in 2 ms. */
	{ "bursts: 32 of 2 ms on 64 slots", 32, 64, 2000, 996, 997, 4 },
	{ "bursts: 8 of 9 ms on 8 slots", 8, 8, 9000, 996, 997, 4 },
	/* They may pass in 2 ms, but take 64: tried ever more rarely, 4, 8, 16, ... */
	{ "bursts: 32 of 2 ms on 1 slot", 32, 1, 2000, 4, 10, 4 },
	/* None could pass in 10 ms. */
	{ "bursts: 32 of 50 ms on 64 slots", 32, 64, 50000, 0, 0, 0 },
	{ "bursts: 32 of 50 ms on 1 slot", 32, 1, 50000, 0, 0, 0 },
};

static void test_depth_bursts(void **state)
{
	const struct burst_row *row = *state;
	u32 i, left, free = 0, first = 0;
	struct ioband_depth d = {};
	u64 now = NSEC_PER_SEC;

	ioband_depth_start(&d, 128);
	ioband_depth_alone(&d, true);
	for (i = 1; i <= 1000; i++) {
		for (left = row->burst; left; left--) {
			now += row->io_us * 1000 / min(d.depth, row->slots);
			ioband_depth_done(&d, 1, left, left > d.depth, now);
		}
		if (d.depth == 128) {
			free++;
			first = first ?: i;
		}
		ioband_depth_idle(&d, false);
		now += 300 * NSEC_PER_MSEC;
	}
	assert_in_range(free, row->least, row->most);
	assert_int_equal(first, row->first);
}

/* A load that ends during a trial tells nothing of the depth. */
static void test_depth_load_ends(void **state)
{
	struct ioband_depth d = {};
	u64 now = NSEC_PER_SEC;
	u32 i, n, trials = 0;

	(void)state;
	ioband_depth_start(&d, 128);
	for (n = 0; n < 1000; n++) {
		/* Until a trial is under way, and a bit longer. */
		for (i = 0; i < 10000 && !d.trial; i++) {
			now += 1000000;
			ioband_depth_done(&d, 1, 128, true, now);
		}
		if (d.trial)
			trials++;
		for (i = 0; i < n % 8; i++) {
			now += 1000000;
			ioband_depth_done(&d, 1, 128, i + 2 < n % 8, now);
		}
		ioband_depth_idle(&d, false);
		now += (20 + n) * 1000000ULL;
		assert_int_equal(d.found, 1);
		ioband_depth_done(&d, 1, 128, true, now);
		assert_int_equal(d.depth, 1);
	}
	assert_int_equal(trials, 1000);
}

int main(void)
{
	static struct harness h;

	add_table(&h, test_depth, depth_rows);
	add_table(&h, test_sizes, sizes_rows);
	add_test(&h, "test_alone", test_alone, NULL);
	add_test(&h, "test_depth_set", test_depth_set, NULL);
	add_test(&h, "test_depth_limit", test_depth_limit, NULL);
	add_test(&h, "test_depth_cpu_bound", test_depth_cpu_bound, NULL);
	add_test(&h, "test_depth_stuck", test_depth_stuck, NULL);
	add_test(&h, "test_depth_all_inside", test_depth_all_inside, NULL);
	add_test(&h, "test_depth_batches", test_depth_batches, NULL);
	add_table(&h, test_depth_bursts, burst_rows);
	add_test(&h, "test_depth_load_ends", test_depth_load_ends, NULL);
	return run_harness(&h, "depth");
}
