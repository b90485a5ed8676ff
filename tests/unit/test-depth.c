// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finding the depth of a disk: readers that wait for their I/O, two groups of
 * weights 200 and 100, on disks of so many servers. Each run is compared with
 * the same readers without control.
 *
 * The simulation is a small one of its own: it knows nothing that a completion
 * doesn't tell, and lets pass what the kernel lets pass without asking.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "dm-ioband-policy.h"

#define MAX_READERS	512
#define THINK_NS	20000
#define WORKER_NS	3000
#define IO_LIMIT	1024

enum state { THINKS, HELD, QUEUED, SERVED };

struct reader {
	struct ioband_req req;	/* first */
	u32 group;
	enum state state;
	u64 next_ns;		/* when it thinks or is served */
};

/* How a disk behaves; from change_ns on it takes change_pct of the time. */
struct disk {
	u32 servers;
	u64 service_ns;
	u32 jitter_pct;
	u64 change_ns;
	u32 change_pct;
};

static struct world {
	struct disk disk;
	struct reader readers[MAX_READERS];
	u32 nr_readers;
	u32 queue[MAX_READERS];
	u64 head, tail;
	u32 busy, in_flight;
	struct ioband_sched sched;
	struct ioband_share shares[2];
	u64 passed[2];		/* I/Os that the core wasn't told of */
	bool control, contended;
	u64 done[2];
	u64 now, start, until;
	u64 seed;
} w;

static u64 rand_up_to(u64 most)
{
	w.seed ^= w.seed << 13;
	w.seed ^= w.seed >> 7;
	w.seed ^= w.seed << 17;
	return w.seed % (most + 1);
}

static u64 jitter(u64 mean, u32 pct)
{
	u64 range = mean * pct / 100;

	return mean - range + rand_up_to(2 * range);
}

static void serve(struct reader *r, u64 delay_ns)
{
	u64 ns = jitter(w.disk.service_ns, w.disk.jitter_pct);

	if (w.disk.change_ns && w.now - w.start >= w.disk.change_ns)
		ns = ns * w.disk.change_pct / 100;
	r->state = SERVED;
	r->next_ns = w.now + delay_ns + ns;
	w.busy++;
}

static void to_disk(struct reader *r, u64 delay_ns)
{
	w.in_flight++;
	if (w.busy < w.disk.servers) {
		serve(r, delay_ns);
	} else {
		r->state = QUEUED;
		w.queue[w.tail++ % MAX_READERS] = r - w.readers;
	}
}

static void dispatch(void)
{
	struct ioband_req *req;

	while ((req = ioband_peek(&w.sched, w.in_flight, w.now, &w.until))) {
		struct reader *r = (struct reader *)req;

		ioband_take(&w.shares[r->group], req, w.now);
		to_disk(r, WORKER_NS);
	}
	if (!ioband_watches(&w.sched, w.in_flight))
		w.contended = false;
}

static void arrive(struct reader *r)
{
	u32 g;

	r->req = (struct ioband_req){
		.sectors = 8, .ios = 1, .prio = IOBAND_PRIO_BE, .sync = true,
	};
	if (!w.control) {
		to_disk(r, 0);
		return;
	}
	if (!w.contended && w.in_flight < w.sched.depth) {
		w.passed[r->group]++;
		to_disk(r, 0);
		return;
	}
	for (g = 0; !w.contended && g < 2; g++) {
		if (w.passed[g])
			ioband_charge(&w.shares[g], w.passed[g]);
		w.passed[g] = 0;
	}
	w.contended = true;
	r->state = HELD;
	ioband_hold(&w.shares[r->group], &r->req, w.now);
	dispatch();
}

static void complete(struct reader *r)
{
	w.busy--;
	w.in_flight--;
	w.done[r->group]++;
	if (w.head != w.tail)
		serve(&w.readers[w.queue[w.head++ % MAX_READERS]], 0);
	r->state = THINKS;
	r->next_ns = w.now + jitter(THINK_NS, 50);
	if (w.control) {
		if (w.contended)
			ioband_done(&w.shares[r->group], &r->req, w.now);
		dispatch();
	}
}

/* Run for so long; what is counted begins after the first third. */
static void run(const struct disk *disk, const u32 *readers, u32 depth,
		u64 run_ns, bool control)
{
	static const u32 weights[2] = { 200, 100 };
	bool counts = false;
	u32 i;

	memset(&w, 0, sizeof(w));
	w.seed = 88172645463325252ULL;
	w.disk = *disk;
	w.control = control;
	w.now = NSEC_PER_SEC;
	w.start = w.now;
	ioband_sched_init(&w.sched, ioband_policy_find("weight"), 1);
	if (depth)
		ioband_sched_set_depth(&w.sched, depth);
	else
		ioband_sched_find_depth(&w.sched, IO_LIMIT);
	for (i = 0; i < 2; i++) {
		struct ioband_claim claim = { .weight = weights[i] };

		ioband_share_init(&w.shares[i], &w.sched, 1 << 20, 1);
		ioband_share_set_claim(&w.shares[i], &claim, w.now);
		ioband_share_activate(&w.shares[i]);
	}
	w.nr_readers = readers[0] + readers[1];
	assert_true(w.nr_readers <= MAX_READERS);
	for (i = 0; i < w.nr_readers; i++) {
		w.readers[i].group = i >= readers[0];
		w.readers[i].next_ns = w.now + i * 1000;
	}

	while (w.now < w.start + run_ns) {
		struct reader *next = NULL;

		for (i = 0; i < w.nr_readers; i++) {
			struct reader *r = &w.readers[i];

			if ((r->state == THINKS || r->state == SERVED) &&
			    (!next || r->next_ns < next->next_ns))
				next = r;
		}
		if (w.until && (!next || w.until < next->next_ns)) {
			w.now = max(w.now, w.until);
			w.until = 0;
			dispatch();
			continue;
		}
		/* A held I/O that nothing would ever send is a stall. */
		assert_non_null(next);
		w.now = next->next_ns;
		if (!counts && w.now >= w.start + run_ns / 3) {
			counts = true;
			w.done[0] = 0;
			w.done[1] = 0;
		}
		if (next->state == THINKS)
			arrive(next);
		else
			complete(next);
	}
}

static const struct depth_row {
	const char *name;
	struct disk disk;
	u32 readers[2];
	u32 least, most;	/* depth found */
	u32 share;		/* of the first, in 1/100 %; 0: not contended */
	u32 off;		/* by so much at most */
	u32 sum;		/* of no control, in 1/100 %, at least */
} depth_rows[] = {
	{ "depth: 1 server, 1 each", { 1, 4000000, 0, 0, 0 }, { 1, 1 },
	  1, 1, 6667, 50, 9900 },
	{ "depth: 1 server, 4 each", { 1, 4000000, 0, 0, 0 }, { 4, 4 },
	  1, 1, 6667, 20, 9900 },
	{ "depth: 1 server, 16 each, uneven", { 1, 4000000, 50, 0, 0 },
	  { 16, 16 }, 1, 2, 6667, 20, 9900 },
	{ "depth: 4 servers, 1 each", { 4, 1000000, 0, 0, 0 }, { 1, 1 },
	  2, 4, 0, 0, 9900 },
	{ "depth: 4 servers, 4 each", { 4, 1000000, 0, 0, 0 }, { 4, 4 },
	  4, 5, 6667, 60, 9880 },
	{ "depth: 4 servers, 4 each, uneven", { 4, 1000000, 50, 0, 0 },
	  { 4, 4 }, 4, 5, 6667, 50, 9850 },
	{ "depth: 4 servers, 16 each", { 4, 1000000, 0, 0, 0 }, { 16, 16 },
	  4, 5, 6667, 20, 9900 },
	{ "depth: 4 servers, 16 each, uneven", { 4, 1000000, 50, 0, 0 },
	  { 16, 16 }, 4, 10, 6667, 20, 9900 },
	{ "depth: 32 servers, 16 each", { 32, 2000000, 30, 0, 0 },
	  { 16, 16 }, 16, 32, 0, 0, 9900 },
	{ "depth: 32 servers, 64 each", { 32, 2000000, 30, 0, 0 },
	  { 64, 64 }, 28, 64, 6667, 20, 9900 },
	{ "depth: 128 servers, 64 each", { 128, 2000000, 50, 0, 0 },
	  { 64, 64 }, 64, 128, 0, 0, 9900 },
	{ "depth: 128 servers, 128 each", { 128, 2000000, 0, 0, 0 },
	  { 128, 128 }, 120, 160, 6667, 50, 9880 },
	{ "depth: 128 servers, 200 each, uneven", { 128, 2000000, 50, 0, 0 },
	  { 200, 200 }, 110, 256, 6667, 50, 9880 },
	/* All of the two's I/O is inside: it gets what two can get. */
	{ "depth: 32 servers, 2 against 32", { 32, 2000000, 30, 0, 0 },
	  { 2, 32 }, 28, 34, 0, 0, 9850 },
	{ "depth: four times slower in mid-run",
	  { 4, 1000000, 30, 3000000000ULL, 400 }, { 16, 16 },
	  4, 10, 6667, 30, 9850 },
	{ "depth: four times faster in mid-run",
	  { 4, 1000000, 30, 3000000000ULL, 25 }, { 16, 16 },
	  4, 10, 6667, 30, 9850 },
};

static void test_depth(void **state)
{
	const struct depth_row *row = *state;
	u64 bare, sum, share, off;

	run(&row->disk, row->readers, 0, 6ULL * NSEC_PER_SEC, false);
	bare = w.done[0] + w.done[1];
	run(&row->disk, row->readers, 0, 6ULL * NSEC_PER_SEC, true);
	sum = (w.done[0] + w.done[1]) * 10000 / bare;
	share = w.done[0] * 10000 / (w.done[0] + w.done[1]);
	print_message("# %-40s depth %u, share %llu.%02llu %%, sum %llu.%02llu %%\n",
		      row->name, w.sched.finder.found,
		      (unsigned long long)share / 100,
		      (unsigned long long)share % 100,
		      (unsigned long long)sum / 100,
		      (unsigned long long)sum % 100);
	if (w.sched.finder.found < row->least ||
	    w.sched.finder.found > row->most)
		failf("the depth found isn't in %u to %u", row->least,
		      row->most);
	off = share > row->share ? share - row->share : row->share - share;
	if (row->share && off > row->off)
		failf("the share is off by %llu/100 %%",
		      (unsigned long long)off);
	if (sum < row->sum)
		failf("the sum is below %u/100 %%", row->sum);
}

/* A depth that is set is kept, whatever the disk. */
static void test_depth_set(void **state)
{
	static const struct disk disk = { .servers = 4, .service_ns = 1000000 };
	static const u32 readers[2] = { 16, 16 };

	(void)state;
	run(&disk, readers, 3, NSEC_PER_SEC, true);
	assert_int_equal(w.sched.depth, 3);
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
		depth = ioband_depth_done(&d, true, now);
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
		depth = ioband_depth_done(&d, depth == 1, now);
		if (depth > 1)
			ioband_depth_idle(&d, false);
	}
	assert_in_range(d.found, 2, 128);
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
			ioband_depth_done(&d, true, now);
		}
		if (d.trial)
			trials++;
		for (i = 0; i < n % 8; i++) {
			now += 1000000;
			ioband_depth_done(&d, i + 2 < n % 8, now);
		}
		ioband_depth_idle(&d, false);
		now += (20 + n) * 1000000ULL;
		assert_int_equal(d.found, 1);
		ioband_depth_done(&d, true, now);
		assert_int_equal(d.depth, 1);
	}
	assert_int_equal(trials, 1000);
}

int main(void)
{
	static struct harness h;

	add_table(&h, test_depth, depth_rows);
	add_test(&h, "test_depth_set", test_depth_set, NULL);
	add_test(&h, "test_depth_limit", test_depth_limit, NULL);
	add_test(&h, "test_depth_cpu_bound", test_depth_cpu_bound, NULL);
	add_test(&h, "test_depth_load_ends", test_depth_load_ends, NULL);
	return run_harness(&h, "depth");
}
