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
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "dm-ioband-policy.h"

#define MAX_READERS	512
#define THINK_NS	20000
#define WORKER_NS	3000
#define IO_LIMIT	1024
#define NR_RUNS		3
/* A disk of 7200 turns a minute. */
#define TURN_NS		8333333ULL
#define SEEK_LEAST_NS	1000000ULL
#define SEEK_MORE_NS	8000000ULL
#define TRANSFER_NS	50000ULL
#define NCQ		32
#define MAX_CHANNELS	64
#define STALL_NS	3000000ULL

enum state { THINKS, HELD, QUEUED, SERVED };

struct reader {
	struct ioband_req req;	/* first */
	u32 group;
	enum state state;
	u64 next_ns;		/* when it thinks or is served */
	u32 track;		/* of a disk that rotates: 0 to 999,999 */
	u32 angle_ns;
};

enum kind {
	SERVERS,	/* so many I/Os at a time */
	ROTATES,	/* one at a time, out of NCQ of them that which is nearest */
	CHANNELS,	/* each I/O has to go through one of them, by its address */
};

/* How a disk behaves; from change_ns on it takes change_pct of the time. */
struct disk {
	u32 servers;
	u64 service_ns;
	u32 jitter_pct;
	u64 change_ns;
	u32 change_pct;
	enum kind kind;
	u32 stall_every;	/* I/Os, then a channel takes STALL_NS longer */
};

static struct world {
	struct disk disk;
	struct reader readers[MAX_READERS];
	u32 nr_readers;
	u32 queue[MAX_READERS];
	u64 head, tail;
	u32 track;
	u64 free_ns[MAX_CHANNELS];
	u64 written;
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

/* How long it takes until the head and the surface are there. */
static u64 position_ns(const struct reader *r)
{
	u32 way = r->track > w.track ? r->track - w.track :
				       w.track - r->track;
	u64 seek = way ? SEEK_LEAST_NS + SEEK_MORE_NS * int_sqrt(way) / 1000 : 0;
	u64 angle = (w.now + seek) % TURN_NS;

	return seek + (r->angle_ns + TURN_NS - angle) % TURN_NS;
}

static void serve(struct reader *r, u64 delay_ns)
{
	u64 ns = jitter(w.disk.service_ns, w.disk.jitter_pct);

	if (w.disk.kind == ROTATES) {
		ns = position_ns(r) + TRANSFER_NS;
		w.track = r->track;
	}

	if (w.disk.change_ns && w.now - w.start >= w.disk.change_ns)
		ns = ns * w.disk.change_pct / 100;
	r->state = SERVED;
	r->next_ns = w.now + delay_ns + ns;
	w.busy++;
}

/* The next one out of the disk's queue. */
static struct reader *from_queue(void)
{
	u64 best_ns = UINT64_MAX, best = w.head, i;
	u32 taken;

	for (i = w.head; w.disk.kind == ROTATES && i < w.tail &&
	     i < w.head + NCQ; i++) {
		u64 ns = position_ns(&w.readers[w.queue[i % MAX_READERS]]);

		if (ns < best_ns) {
			best_ns = ns;
			best = i;
		}
	}
	taken = w.queue[best % MAX_READERS];
	for (i = best; i > w.head; i--)
		w.queue[i % MAX_READERS] = w.queue[(i - 1) % MAX_READERS];
	w.head++;
	return &w.readers[taken];
}

static void through_channel(struct reader *r, u64 delay_ns)
{
	u64 *free_ns = &w.free_ns[rand_up_to(w.disk.servers - 1)];

	*free_ns = max(*free_ns, w.now + delay_ns) +
		   jitter(w.disk.service_ns, w.disk.jitter_pct);
	if (w.disk.stall_every && ++w.written % w.disk.stall_every == 0)
		*free_ns += STALL_NS;
	r->state = SERVED;
	r->next_ns = *free_ns;
	w.busy++;
}

static void to_disk(struct reader *r, u64 delay_ns)
{
	w.in_flight++;
	r->track = rand_up_to(999999);
	r->angle_ns = rand_up_to(TURN_NS - 1);
	if (w.disk.kind == CHANNELS)
		through_channel(r, delay_ns);
	else if (w.busy < w.disk.servers)
		serve(r, delay_ns);
	else
		r->state = QUEUED;
	if (r->state == QUEUED)
		w.queue[w.tail++ % MAX_READERS] = r - w.readers;
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
		serve(from_queue(), 0);
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
		u64 run_ns, u32 seed, bool control)
{
	static const u32 weights[2] = { 200, 100 };
	bool counts = false;
	u32 i;

	memset(&w, 0, sizeof(w));
	w.seed = 88172645463325252ULL + seed * 7777777777ULL;
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

#define EVEN(n, ns, pct) {						\
	.servers = n, .service_ns = ns, .jitter_pct = pct }
#define CHANGES(n, ns, pct, to_pct) {					\
	.servers = n, .service_ns = ns, .jitter_pct = pct,		\
	.change_ns = 3000000000ULL, .change_pct = to_pct }
#define FLASH(every) {							\
	.kind = CHANNELS, .servers = 8, .service_ns = 80000,		\
	.jitter_pct = 30, .stall_every = every }

static const struct depth_row {
	const char *name;
	struct disk disk;
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
	{ "depth: rotating, 1 each", { .servers = 1, .kind = ROTATES }, { 1, 1 },
	  1, 1, 6667, 100, 9700 },
	{ "depth: rotating, 4 each", { .servers = 1, .kind = ROTATES }, { 4, 4 },
	  2, 6, 6667, 200, 7900 },
	{ "depth: rotating, 16 each", { .servers = 1, .kind = ROTATES }, { 16, 16 },
	  12, 24, 6667, 200, 8800 },
	{ "depth: rotating, 64 each", { .servers = 1, .kind = ROTATES }, { 64, 64 },
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

/* Of three runs together, since a disk whose times vary gives varying sums. */
static void test_depth(void **state)
{
	const struct depth_row *row = *state;
	/* A rotating disk does 100 to 200 I/Os a second. */
	u64 ns = (row->disk.kind == ROTATES ? 100ULL : 6ULL) * NSEC_PER_SEC;
	u64 bare = 0, done[2] = {}, sum, share, off;
	u32 i, found = 0;

	for (i = 0; i < NR_RUNS; i++) {
		run(&row->disk, row->readers, 0, ns, i, false);
		bare += w.done[0] + w.done[1];
		run(&row->disk, row->readers, 0, ns, i, true);
		done[0] += w.done[0];
		done[1] += w.done[1];
		found = w.sched.finder.found;
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

/* A depth that is set is kept, whatever the disk. */
static void test_depth_set(void **state)
{
	static const struct disk disk = { .servers = 4, .service_ns = 1000000 };
	static const u32 readers[2] = { 16, 16 };

	(void)state;
	run(&disk, readers, 3, NSEC_PER_SEC, 0, true);
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
		depth = ioband_depth_done(&d, 128, true, now);
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
		depth = ioband_depth_done(&d, 128, depth == 1, now);
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
			ioband_depth_done(&d, 128, true, now);
		}
		if (d.trial)
			trials++;
		for (i = 0; i < n % 8; i++) {
			now += 1000000;
			ioband_depth_done(&d, 128, i + 2 < n % 8, now);
		}
		ioband_depth_idle(&d, false);
		now += (20 + n) * 1000000ULL;
		assert_int_equal(d.found, 1);
		ioband_depth_done(&d, 128, true, now);
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
