// SPDX-License-Identifier: GPL-2.0-only
/*
 * The automatic threshold whatever the disk and the load: random disks of each
 * kind and groups of readers and deep queues that come and go, in runs long
 * enough to find the depth. Each is compared with the same load without control.
 *
 * A scenario follows from its seed alone, see verdict.h.
 */
#include "harness.h"

#include <math.h>

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "sim.h"
#include "verdict.h"

#define FIXED_SEEDS	1100
/* I/Os of a run, at least, and the part of it after which counting begins. */
#define RUN_IOS		6000U
#define COUNT_PCT	75
#define IO_BYTES	4096
/* Most I/Os in flight, mostly. */
#define IO_LIMIT	128

enum model {
	SERVERS,
	ROTATES,
	CHANNELS,
	STALLS,		/* channels that do now and then */
	NR_MODELS,
};

enum property {
	DEPTH,
	CONSERVING,
	LOST_BOUNDED,
	SUM,
	SHARES,
	EMPTY_AT_THE_END,
	NR_PROPERTIES,
};

static const char *const property_names[NR_PROPERTIES] = {
	[DEPTH]		= "the depth is from 1 to the limit, as is what is found",
	[CONSERVING]	= "no slot is empty while I/O is held, but in anticipation",
	[LOST_BOUNDED]	= "anticipation loses 2 % and the grace at most",
	[SUM]		= "the sum is near that without control",
	[SHARES]	= "who always has enough I/O has its share",
	[EMPTY_AT_THE_END] = "nothing is left held or in flight",
};

static struct verdict verdicts[NR_PROPERTIES];

struct watcher {
	u64 seed;
	/* Largest depth since counting began, and ever. */
	u32 depth;
	u32 top_depth;
	u64 service_ns;
	/* Of before. */
	u64 lost_ns;
	u64 busy_ns;
};

#define expect(w, p, ok, ...) \
	verdict_add(&verdicts[p], (w)->seed, ok, __VA_ARGS__)

/* I/Os that a group has to have beyond what is inside and thought about. */
#define MARGIN	2

/*
 * Shares are exact but for what is inside at both ends, and for when chance has
 * all of a group's I/O inside at a time: 0.6 % at most in 10,000 scenarios.
 */
#define SHARES_OFF	1.0

/*
 * Percent of no control, by model and whether all groups are rich. If they are,
 * what is left out is what the search didn't find worth a deeper step (5 %), and
 * in the worst case that it hasn't ended: on channels that stall the noise of
 * the rate hides the gain for long. The best of all fixed depths up to the limit
 * at which shares hold has 98.6 % on channels and 98.3 % on those that stall, on the
 * average.
 *
 * If they aren't, shares come first: a group of weight that has one reader keeps
 * a disk at depth 1, which is 2/5 on a disk that rotates and 1 / channels else.
 */
static const double least_sums[NR_MODELS][2] = {
	[SERVERS]	= { 15, 85 },
	[ROTATES]	= { 35, 75 },
	[CHANNELS]	= { 8, 80 },
	[STALLS]	= { 8, 30 },
};

static struct watcher *watcher(struct sim *s)
{
	return s->cfg.data;
}

/* --- figures over all scenarios, for who reads the output --- */

struct figures {
	const char *name;
	double least_mean;
	double *values;
	u32 nr, max;
	double worst;
	u64 seed;
};

/*
 * A run takes so many times that of an I/O, at least: each step of the search
 * takes a dozen or two of them on servers, more where the gain of a step is
 * small, and it has to be over when counting begins.
 */
static const u32 run_times[DISK_NR_KINDS] = { 900, 7000, 1500 };

/*
 * By model, and whether all groups are rich in I/O, see random_loads(). A single
 * scenario may be unlucky, so the bounds of the means are what keeps the search
 * from becoming worse.
 */
static struct figures sums[NR_MODELS][2] = {
	[SERVERS]	= { { "sum, servers", 97 },
			    { "sum, servers, rich", 99.5 } },
	[ROTATES]	= { { "sum, rotating", 70 },
			    { "sum, rotating, rich", 99.3 } },
	[CHANNELS]	= { { "sum, channels", 75 },
			    { "sum, channels, rich", 96.1 } },
	[STALLS]	= { { "sum, stalls", 73 },
			    { "sum, stalls, rich", 95.5 } },
};

static struct figures offs[NR_MODELS] = {
	[SERVERS]	= { "share off by, servers" },
	[ROTATES]	= { "share off by, rotating" },
	[CHANNELS]	= { "share off by, channels" },
	[STALLS]	= { "share off by, stalls" },
};

static enum model model_of(const struct sim_disk *d)
{
	switch (d->kind) {
	case DISK_ROTATES:
		return ROTATES;
	case DISK_CHANNELS:
		return d->stall_every ? STALLS : CHANNELS;
	default:
		return SERVERS;
	}
}

/* @badness grows with what is bad. */
static void figures_add(struct figures *f, u64 seed, double value,
			double badness)
{
	if (f->nr == f->max) {
		f->max = f->max ? f->max * 2 : 1024;
		f->values = realloc(f->values, f->max * sizeof(*f->values));
		assert_non_null(f->values);
	}
	if (!f->nr || badness > f->worst) {
		f->worst = badness;
		f->seed = seed;
	}
	f->values[f->nr++] = value;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void figures_print(struct figures *f)
{
	double sum = 0;
	u32 i;

	if (!f->nr)
		return;
	qsort(f->values, f->nr, sizeof(*f->values), by_value);
	for (i = 0; i < f->nr; i++)
		sum += f->values[i];
	print_message("# %-22s n %5u, mean %6.2f %%, least %6.2f, p1 %6.2f, ",
		      f->name, f->nr, sum / f->nr, f->values[0],
		      f->values[f->nr / 100]);
	print_message("median %6.2f, p99 %6.2f, most %6.2f; worst seed %llu\n",
		      f->values[f->nr / 2],
		      f->values[f->nr - 1 - f->nr / 100],
		      f->values[f->nr - 1], (unsigned long long)f->seed);
	/* Less says nothing of the mean. */
	if (f->nr >= 50 && sum / f->nr < f->least_mean)
		failf("%s: the mean is less than %.1f %%", f->name,
		      f->least_mean);
	free(f->values);
	f->values = NULL;
}

static void test_figures(void **state)
{
	u32 i;

	(void)state;
	for (i = 0; i < NR_MODELS; i++) {
		figures_print(&sums[i][false]);
		figures_print(&sums[i][true]);
	}
	for (i = 0; i < NR_MODELS; i++)
		figures_print(&offs[i]);
}

/* --- the watch --- */

static void on_done(struct sim *s, struct sim_io *io)
{
	struct watcher *w = watcher(s);

	(void)io;
	w->service_ns = max(w->service_ns, s->sched.service_ns);
}

static void on_settled(struct sim *s, const struct ioband_req *next,
		       u64 until_ns)
{
	expect(watcher(s), CONSERVING,
	       s->in_flight >= s->depth || !s->sched.held ||
	       (!next && until_ns > s->now_ns),
	       "at %llu: %u of %u in flight, %u held, and nothing awaited",
	       s->now_ns, s->in_flight, s->depth, s->sched.held);
}

static void on_step(struct sim *s)
{
	struct watcher *w = watcher(s);
	const struct ioband_depth *d = &s->sched.finder;

	w->depth = max(w->depth, s->sched.depth);
	w->top_depth = max(w->top_depth, s->sched.depth);
	expect(w, DEPTH, s->sched.depth && s->sched.depth <= s->limit &&
	       s->depth && s->depth <= s->limit &&
	       d->found && d->found <= s->limit &&
	       s->in_flight <= s->limit,
	       "at %llu: depth %u, %u in force, %u found, %u in flight of %u",
	       s->now_ns, s->sched.depth, s->depth, d->found, s->in_flight,
	       s->limit);
}

static const struct sim_watch watch = {
	.done		= on_done,
	.settled	= on_settled,
	.step		= on_step,
};

/* --- scenarios --- */

static void random_disk(struct sim_rand *r, struct sim_disk *d)
{
	/* Fewer that rotate: they take most of our time. */
	static const enum sim_disk_kind kinds[] = {
		DISK_SERVERS, DISK_SERVERS, DISK_ROTATES, DISK_CHANNELS,
		DISK_CHANNELS,
	};

	d->kind = kinds[sim_rand_range(r, 0, ARRAY_SIZE(kinds) - 1)];
	d->jitter_pct = sim_rand_range(r, 0, 60);
	switch (d->kind) {
	case DISK_SERVERS:
		d->servers = sim_rand_log(r, 1, 32);
		d->read_ns = sim_rand_log(r, 100 * USEC, 8 * MSEC);
		break;
	case DISK_CHANNELS:
		d->servers = sim_rand_log(r, 2, 16);
		d->read_ns = sim_rand_log(r, 50 * USEC, MSEC);
		if (sim_rand_range(r, 0, 1))
			d->stall_every = sim_rand_log(r, 64, 1024);
		break;
	default:
		/* Its times are uneven as it is. */
		d->jitter_pct = 0;
		return;
	}
	if (sim_rand_range(r, 0, 1))
		d->write_ns = d->read_ns * sim_rand_range(r, 1, 4);
}

/* What the disk is at work for an I/O, on the average. */
static double nominal_ns(const struct sim_disk *d, int dir)
{
	if (dir == IOBAND_READ || d->kind == DISK_ROTATES)
		return disk_read_ns(d);
	return (d->write_ns ?: d->read_ns) +
	       (d->stall_every ? (double)DISK_STALL_NS / d->stall_every : 0);
}

/* The same for an I/O of a load. */
static double load_ns(const struct sim_disk *d, const struct sim_load *l)
{
	return nominal_ns(d, IOBAND_READ) * (1 - 0.01 * l->write_pct) +
	       nominal_ns(d, IOBAND_WRITE) * 0.01 * l->write_pct;
}

/*
 * A group's part of what is inside: weights are of I/Os, and slow ones are
 * inside for longer, unless all wait in the same channels.
 */
static double part_inside(const struct sim_config *c, u32 group)
{
	double ns = 0, weights = 0;
	u32 i;

	for (i = 0; i < c->nr_groups; i++) {
		weights += c->weights[i];
		ns += c->weights[i] * load_ns(&c->disk, &c->loads[i]);
	}
	return fmax(c->weights[group] / weights, c->weights[group] *
		    load_ns(&c->disk, &c->loads[group]) / ns);
}

/* From how many I/Os inside on the disk gains little. */
static u32 saturation(const struct sim_disk *d)
{
	switch (d->kind) {
	case DISK_ROTATES:
		return DISK_NCQ;
	case DISK_CHANNELS:
		return d->servers * 4;
	default:
		return d->servers;
	}
}

static void random_load(struct sim_rand *r, struct sim_load *l, u64 read_ns)
{
	static const u32 write_pcts[] = { 0, 0, 100, 30 };

	l->kind = sim_rand_range(r, 0, 2) ? SIM_READERS : SIM_QUEUE;
	l->n = l->kind == SIM_READERS ? sim_rand_log(r, 1, 64) :
					sim_rand_log(r, 8, 128);
	if (l->kind == SIM_READERS) {
		l->think_ns = sim_rand_log(r, USEC, read_ns / 8);
		l->think_jitter_pct = 50;
	}
	l->write_pct = write_pcts[sim_rand_range(r, 0,
						 ARRAY_SIZE(write_pcts) - 1)];
	l->prio = IOBAND_PRIO_BE;
}

/*
 * Half of the scenarios are rich: each group has twice what its part of a
 * saturated disk is or more, so that nothing speaks against any depth.
 */
static bool random_loads(struct sim_rand *r, struct sim_config *c)
{
	bool rich = sim_rand_range(r, 0, 1);
	u32 i, need;

	c->nr_loads = c->nr_groups;
	for (i = 0; i < c->nr_groups; i++) {
		c->weights[i] = sim_rand_range(r, 0, 7) ?
				100 * sim_rand_range(r, 1, 10) :
				sim_rand_log(r, 1, 1000);
		c->loads[i].group = i;
		random_load(r, &c->loads[i], disk_read_ns(&c->disk));
	}
	for (i = 0; rich && i < c->nr_groups; i++) {
		need = saturation(&c->disk) * part_inside(c, i) + 1;
		c->loads[i].n = 2 * need + sim_rand_range(r, 0, 2 * need);
	}
	return rich;
}

static void come_and_go(struct sim_rand *r, struct sim_config *c, u64 run_ns)
{
	u32 i;

	for (i = 0; i < c->nr_groups; i++) {
		struct sim_load *l = &c->loads[i];

		if (sim_rand_range(r, 0, 1))
			continue;
		l->start_ns = sim_rand_range(r, 1, run_ns / 4);
		l->on_ns = run_ns / sim_rand_range(r, 2, 40);
		l->off_ns = run_ns / sim_rand_range(r, 2, 40);
	}
}

/* How long a run has to be. */
static u64 run_time(const struct sim_config *c)
{
	const struct sim_disk *d = &c->disk;
	u32 i, at_once = d->kind == DISK_ROTATES ? 1 : d->servers;
	u32 outstanding = 0;
	double ns = 0;

	for (i = 0; i < c->nr_loads; i++) {
		outstanding += c->loads[i].n;
		ns += load_ns(d, &c->loads[i]) / c->nr_loads;
	}
	return ns * max(RUN_IOS / min(at_once, outstanding),
			run_times[d->kind]);
}

/* Returns whether all groups are rich all the time. */
static bool random_scenario(struct sim_config *c, u64 seed, u64 *run_ns)
{
	struct sim_disk *d = &c->disk;
	struct sim_rand r;
	bool rich;

	memset(c, 0, sizeof(*c));
	sim_rand_seed(&r, seed);
	c->seed = seed;
	c->carryover = IOBAND_CARRYOVER_DEFAULT;
	c->dispatch_ns = sim_rand_range(&r, 0, 5 * USEC);
	random_disk(&r, d);
	c->nr_groups = sim_rand_range(&r, 2, 6);
	rich = random_loads(&r, c);
	c->limit = IO_LIMIT;
	if (!rich && !sim_rand_range(&r, 0, 7))
		c->limit = sim_rand_log(&r, 1, 2 * IO_LIMIT);
	*run_ns = run_time(c);
	if (!sim_rand_range(&r, 0, 2)) {
		d->change_ns = *run_ns * sim_rand_range(&r, 30, 60) / 100;
		d->change_pct = sim_rand_range(&r, 0, 1) ?
				sim_rand_range(&r, 25, 100) :
				sim_rand_range(&r, 100, 400);
		if (d->change_pct > 100)
			*run_ns = *run_ns * d->change_pct / 100;
	}
	if (!rich && sim_rand_range(&r, 0, 1))
		come_and_go(&r, c, *run_ns);
	return rich;
}

/* What the disk did since counting began, in its own time. */
static double work_done(const struct sim *s)
{
	double ns = 0;
	u32 i;
	int dir;

	for (i = 0; i < s->cfg.nr_groups; i++)
		for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
			ns += s->groups[i].bytes[dir] / IO_BYTES *
			      nominal_ns(&s->cfg.disk, dir);
	return ns;
}

static void run_counted(struct sim *s, u64 run_ns)
{
	sim_run(s, run_ns * COUNT_PCT / 100);
	if (watcher(s)) {
		watcher(s)->depth = 0;
		watcher(s)->lost_ns = s->lost_ns;
		watcher(s)->busy_ns = s->busy_ns;
	}
	sim_reset_counts(s);
	sim_run(s, run_ns);
}

/*
 * Does each group always have I/O held? It does if it has more than its part of
 * the depth inside, and of what its readers think about in that time.
 */
static bool all_backlogged(struct sim *s)
{
	const struct sim_config *c = &s->cfg;
	u32 i;

	for (i = 0; i < c->nr_groups; i++) {
		const struct sim_load *l = &c->loads[i];
		double inside = watcher(s)->depth * part_inside(c, i);
		double thinks = inside * l->think_ns / disk_read_ns(&c->disk);

		if (l->off_ns || l->n < inside + thinks + MARGIN)
			return false;
	}
	return true;
}

static void check_shares(struct sim *s)
{
	struct watcher *w = watcher(s);
	enum model model = model_of(&s->cfg.disk);
	double all = 0, weights = 0, off;
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++) {
		all += s->groups[i].ios;
		weights += s->cfg.weights[i];
	}
	for (i = 0; i < s->cfg.nr_groups; i++) {
		off = 100 * fabs(s->groups[i].ios / all -
				 s->cfg.weights[i] / weights);
		figures_add(&offs[model], w->seed, off, off);
		expect(w, SHARES, off <= SHARES_OFF,
		       "group %u has %.2f %%, not %.2f %%", i,
		       100 * s->groups[i].ios / all,
		       100 * s->cfg.weights[i] / weights);
	}
}

static void check_end(struct sim *s)
{
	struct watcher *w = watcher(s);
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++)
		expect(w, EMPTY_AT_THE_END, !s->groups[i].share.held,
		       "group %u: holds %u", i, s->groups[i].share.held);
	expect(w, EMPTY_AT_THE_END, !s->sched.held && !s->in_flight &&
	       !s->sched.inside && !s->outstanding &&
	       !ioband_wants_room(&s->sched),
	       "%u held, %u in flight, %u inside, %u outstanding", s->sched.held,
	       s->in_flight, s->sched.inside, s->outstanding);
}

static void run_scenario(u64 seed)
{
	struct sim_config c;
	struct watcher w = { .seed = seed };
	enum model model;
	double bare, sum;
	bool rich;
	struct sim *s;
	u64 run_ns;

	rich = random_scenario(&c, seed, &run_ns);
	model = model_of(&c.disk);
	c.no_control = true;
	s = sim_new(&c);
	run_counted(s, run_ns);
	bare = work_done(s);
	sim_free(s);

	c.no_control = false;
	c.watch = &watch;
	c.data = &w;
	s = sim_new(&c);
	run_counted(s, run_ns);
	sum = 100 * work_done(s) / bare;
	if (c.limit >= IO_LIMIT) {
		figures_add(&sums[model][rich], seed, sum, -sum);
		expect(&w, SUM, sum >= least_sums[model][rich],
		       "%s: %.2f %%", sums[model][rich].name, sum);
	}
	/* Over all of the run, as in test-properties.c. */
	w.lost_ns += s->lost_ns;
	w.busy_ns += s->busy_ns;
	expect(&w, LOST_BOUNDED, w.lost_ns <= w.busy_ns / 50 +
	       16 * w.service_ns + w.top_depth * (w.service_ns / 4 + 1),
	       "lost %llu ns of %llu, mean time of an I/O %llu, depth %u",
	       w.lost_ns, w.busy_ns, w.service_ns, w.top_depth);
	if (all_backlogged(s))
		check_shares(s);
	sim_finish(s, s->now_ns + 3600 * SEC);
	check_end(s);
	sim_free(s);
}

int main(void)
{
	static struct harness h;

	run_scenarios(run_scenario, FIXED_SEEDS);
	add_verdicts(&h, property_names, verdicts, NR_PROPERTIES);
	add_test(&h, "figures", test_figures, NULL);
	return run_harness(&h, "search");
}
