// SPDX-License-Identifier: GPL-2.0-only
/*
 * What must hold of the scheduling core whatever the load and the disk: bounds
 * checked in thousands of random scenarios, and shares in long runs.
 *
 * A scenario follows from its seed alone. Seeds 1 to FIXED_SEEDS always run,
 * IOBAND_SEEDS=N adds N random ones, IOBAND_SEED=S runs only S.
 */
#include "harness.h"

#include <math.h>

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "sim.h"
#include "verdict.h"

#define FIXED_SEEDS	3000
#define NR_PRIOS	IOBAND_NR_PRIOS

enum property {
	FAIR_SETTLED,
	FAIR,
	FAIR_SPEC,
	CREDIT,
	CONSERVING,
	LOST_BOUNDED,
	LOST_MEASURED,
	WAIT_TOKENS,
	WAIT_TIME,
	CHARGES,
	EMPTY_AT_THE_END,
	INSIDE,
	NR_PROPERTIES,
};

static const char *const property_names[NR_PROPERTIES] = {
	[FAIR_SETTLED]	= "fair: l/w + l/w, and T within bursts, once settled",
	[FAIR]		= "fair: from the first I/O on",
	[FAIR_SPEC]	= "fair: 2T + l/w + l/w from the first I/O on",
	[CREDIT]	= "credit of a returning group is bounded",
	[CONSERVING]	= "no slot is empty while I/O is held, but in anticipation",
	[LOST_BOUNDED]	= "anticipation loses 2 % and the grace at most",
	[LOST_MEASURED]	= "anticipation knows what it loses",
	[WAIT_TOKENS]	= "only so much I/O passes one that is held",
	[WAIT_TIME]	= "held I/O is sent in time",
	[CHARGES]	= "sum of charges is sum of costs",
	[EMPTY_AT_THE_END] = "nothing is left held or in flight",
	[INSIDE]	= "priority and order of arrival inside a group",
};

static struct verdict verdicts[NR_PROPERTIES];

/* --- what is watched in a scenario --- */

/* Two groups since both hold I/O. V is tokens per weight sent of each. */
struct pair {
	bool on;
	bool sent_f, sent_m;
	/* Least and largest V_f - V_m since it began, and since it settled. */
	long double lo, hi;
	bool settled;
	long double settled_lo, settled_hi;
};

struct watcher {
	u64 seed;
	struct pair pairs[SIM_MAX_GROUPS][SIM_MAX_GROUPS];
	long double v[SIM_MAX_GROUPS];
	/* Largest I/O, largest weight so far. */
	u32 largest[SIM_MAX_GROUPS];
	u32 top_weight[SIM_MAX_GROUPS];
	/* Largest T so far. */
	long double t;
	bool prios;
	u32 reweighs;
	u64 takes;
	u64 taken;
	u64 charged[SIM_MAX_GROUPS];
	u64 folded[SIM_MAX_GROUPS];
	u64 tag_before_hold;
	u64 held_tokens[SIM_MAX_GROUPS][IOBAND_NR_DIRS];
	u32 held_prio[SIM_MAX_GROUPS][NR_PRIOS];
	u64 arrivals;
	u64 last[SIM_MAX_GROUPS][IOBAND_NR_DIRS][NR_PRIOS];
	u64 top_service_ns;
	u64 worst_disk_ns;
	u32 fades;
	u64 core_busy_ns;
};

#define MARK_ARRIVAL	0
#define MARK_TAKEN	1
#define MARK_BOUND	2
#define MARK_REWEIGHS	3

static struct watcher *watcher(struct sim *s)
{
	return s->cfg.data;
}

/* The watcher knows the seed, a failure tells it. */
#define expect(w, p, ok, ...) \
	verdict_add(&verdicts[p], (w)->seed, ok, __VA_ARGS__)

/* --- bounds ---
 *
 * All in tokens per weight. T is the burst; b is 1/2 if the administrator set a
 * burst (token_base), so that a group goes on within half of it, else 0; k
 * rounds of credit; l the largest I/O of a group, w its weight; c the domain's
 * clock, which is the largest tag that an I/O had when it was sent.
 *
 * Where a group's tag may stand when it begins to hold I/O, or its weight
 * changes:
 *   lag:  it starts at c - k T at the least; and with b, c may have moved
 *	   beyond the least tag by b T. So max(k, b) T.
 *   lead: its tag was <= c + b T when its last I/O was sent, which moved it by
 *	   l/w; and charges for I/O that went straight end at T / 2. So
 *	   max(T / 2, b T + l/w), and after changes of weight the lead has the
 *	   same tokens as before.
 *
 * Once both f and m have sent since, they are level: f's I/O went when
 * f <= m + b T, and moved f by l_f/w_f, so f - m <= b T + l_f/w_f for good, and
 * the same the other way. V_f - V_m moves as f - m does, so over any interval
 * from there |dV_f - dV_m| <= 2 b T + l_f/w_f + l_m/w_m, and with b = 1/2 that
 * is T and an I/O of each.
 *
 * From the beginning, f - m goes from -(lag_f + lead_m) to b T + l_f/w_f, or
 * the same the other way. With k = 1 that is T + T / 2 + T / 2 and an I/O of each
 * at most: the bound of the theory, 2 T + l_f/w_f + l_m/w_m, in which T is then
 * the credit, what went straight and the burst.
 *
 * These are counted when I/O is sent. Counted at completion, there is also
 * what is in flight at both ends of the interval: D l/w of each at most.
 *
 * Each I/O's move is rounded down to 2^-32.
 */
static long double burst(const struct sim *s)
{
	long double tokens = s->cfg.token_base ?:
			     (long double)s->cfg.depth * s->sched.policy->unit;
	u64 weights = 0;
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++)
		weights += s->groups[i].share.weight;
	return tokens / weights;
}

static long double move(const struct sim *s, const struct watcher *w, u32 g)
{
	return (long double)w->largest[g] / s->groups[g].share.weight;
}

/* b T */
static long double goes_on(const struct sim *s, const struct watcher *w)
{
	return s->cfg.token_base ? w->t / 2 : 0;
}

static long double lag(const struct sim *s, const struct watcher *w)
{
	return fmaxl(s->cfg.carryover * w->t, goes_on(s, w));
}

static long double lead(const struct sim *s, const struct watcher *w, u32 g)
{
	return fmaxl(w->t / 2 * w->top_weight[g],
		     goes_on(s, w) * w->top_weight[g] + w->largest[g]) /
	       s->groups[g].share.weight;
}

static long double rounding(const struct watcher *w)
{
	return (w->takes + 4) * ldexpl(1, -IOBAND_TAG_SHIFT) + 1e-9;
}

/* --- (a) fairness, at each I/O sent --- */

static void pair_begin(struct sim *s, u32 f, u32 m)
{
	struct watcher *w = watcher(s);
	struct pair *p = f < m ? &w->pairs[f][m] : &w->pairs[m][f];
	long double x = f < m ? w->v[f] - w->v[m] : w->v[m] - w->v[f];

	memset(p, 0, sizeof(*p));
	p->on = true;
	p->lo = x;
	p->hi = x;
}

static void pair_check(struct sim *s, u32 f, u32 m)
{
	struct watcher *w = watcher(s);
	struct pair *p = &w->pairs[f][m];
	long double x = w->v[f] - w->v[m];
	long double moves = move(s, w, f) + move(s, w, m);
	long double bt = goes_on(s, w);
	long double most;

	p->lo = fminl(p->lo, x);
	p->hi = fmaxl(p->hi, x);
	most = 2 * bt + moves;
	most = fmaxl(most, lag(s, w) + lead(s, w, m) + bt + move(s, w, f));
	most = fmaxl(most, lag(s, w) + lead(s, w, f) + bt + move(s, w, m));
	expect(w, FAIR, p->hi - p->lo <= most + rounding(w),
	       "groups %u and %u: %Lg tokens per weight, bound %Lg",
	       f, m, p->hi - p->lo, most);
	/* A lead that a change of weight left may be larger. */
	if (s->cfg.carryover <= 1 && !w->reweighs)
		expect(w, FAIR_SPEC,
		       p->hi - p->lo <= 2 * w->t + moves + rounding(w),
		       "groups %u and %u: %Lg tokens per weight, bound %Lg, T %Lg",
		       f, m, p->hi - p->lo, 2 * w->t + moves, w->t);
	if (!p->settled) {
		if (p->sent_f && p->sent_m) {
			p->settled = true;
			p->settled_lo = x;
			p->settled_hi = x;
		}
		return;
	}
	p->settled_lo = fminl(p->settled_lo, x);
	p->settled_hi = fmaxl(p->settled_hi, x);
	most = 2 * bt + moves;
	expect(w, FAIR_SETTLED,
	       p->settled_hi - p->settled_lo <= most + rounding(w),
	       "groups %u and %u: %Lg tokens per weight, bound %Lg",
	       f, m, p->settled_hi - p->settled_lo, most);
}

static void watch_fairness(struct sim *s, u32 f)
{
	struct watcher *w = watcher(s);
	u32 m;

	for (m = 0; m < s->cfg.nr_groups; m++) {
		struct pair *p = f < m ? &w->pairs[f][m] : &w->pairs[m][f];

		if (m == f || !p->on)
			continue;
		if (f < m)
			p->sent_f = true;
		else
			p->sent_m = true;
		/* f held I/O up to and with this one. */
		pair_check(s, min(f, m), max(f, m));
		if (!s->groups[f].share.held)
			p->on = false;
	}
}

/* --- (c) waiting ---
 *
 * An I/O of f with A tokens ahead of it in its own direction waits for f's
 * other direction, too, which gets as much, give or take an I/O at both ends:
 * f sends F = 2 A + 2 l_f before it. While f's tag moves from lead_f beyond
 * the clock on by F / w_f, another group m sends from lag behind the clock up
 * to the same tag and b T more, and the I/O that takes it across.
 */
static u64 wait_bound(struct sim *s, const struct sim_io *io)
{
	struct watcher *w = watcher(s);
	u32 f = io->group, m;
	long double ahead = 2.0L * w->held_tokens[f][io->req.dir] +
			    2.0L * w->largest[f];
	long double way = lead(s, w, f) + ahead / s->groups[f].share.weight +
			  lag(s, w) + goes_on(s, w) +
			  rounding(w);
	long double bound = ahead + 1;

	for (m = 0; m < s->cfg.nr_groups; m++)
		if (m != f)
			bound += way * s->groups[m].share.weight +
				 w->largest[m];
	return bound < 1e18L ? (u64)bound : U64_MAX;
}

/*
 * Each I/O that goes before needs a slot. All servers are busy or the queue
 * in the disk is empty, so while anything is in flight a slot becomes free
 * within the disk's worst time for one I/O; then it may be kept for 1/4 of the
 * mean time in the disk, after the completion of the last in flight (once
 * more the worst time), and the worker needs its time.
 */
static u64 wait_time_bound(const struct sim *s, u64 ios)
{
	const struct watcher *w = s->cfg.data;

	return (ios + 2) * (2 * w->worst_disk_ns + w->top_service_ns / 4 +
			    2 * s->cfg.dispatch_ns);
}

/* --- the watch --- */

static void on_fold(struct sim *s, u32 group, u64 tokens, u64 tag)
{
	struct watcher *w = watcher(s);
	const struct ioband_share *g = &s->groups[group].share;
	s64 was = max((s64)(tag - s->sched.root.tag), 0LL);
	s64 is = g->tag - s->sched.root.tag;
	long double unit = ldexpl(1, IOBAND_TAG_SHIFT);
	long double want = was + tokens * unit / g->weight;

	want = fminl(want, fmaxl(was, burst(s) / 2 * unit));
	w->folded[group] += tokens;
	expect(w, CHARGES, fabsl(is - want) <= 2,
	       "group %u: %llu straight tokens took its lead from %lld to %lld, not %Lg",
	       group, tokens, was, is, want);
}

static void on_before_hold(struct sim *s, struct sim_io *io)
{
	watcher(s)->tag_before_hold = s->groups[io->group].share.tag;
}

static void on_hold(struct sim *s, struct sim_io *io)
{
	struct watcher *w = watcher(s);
	u32 g = io->group, m;
	const struct ioband_share *share = &s->groups[g].share;
	long double unit = ldexpl(1, IOBAND_TAG_SHIFT);
	s64 was = w->tag_before_hold - s->sched.root.tag;
	s64 is = share->tag - s->sched.root.tag;

	if (share->held == 1) {
		long double credit = burst(s) * s->cfg.carryover * unit;
		long double want = fmaxl(was, -credit);

		expect(w, CREDIT, fabsl(is - want) <= s->cfg.carryover + 1,
		       "group %u: starts at the clock %+lld, not %+Lg",
		       g, is, want);
		for (m = 0; m < s->cfg.nr_groups; m++)
			if (m != g && s->groups[m].share.held)
				pair_begin(s, g, m);
	} else {
		expect(w, CREDIT, is == was,
		       "group %u: tag moved while it held I/O", g);
	}
	io->mark[MARK_ARRIVAL] = ++w->arrivals;
	io->mark[MARK_TAKEN] = w->taken;
	io->mark[MARK_BOUND] = wait_bound(s, io);
	io->mark[MARK_REWEIGHS] = w->reweighs;
	w->held_tokens[g][io->req.dir] += io->tokens;
	w->held_prio[g][io->req.prio]++;
}

static void check_inside(struct sim *s, struct sim_io *io)
{
	struct watcher *w = watcher(s);
	u32 g = io->group, prio = io->req.prio, p;
	u64 *last = &w->last[g][io->req.dir][prio];
	bool aged = s->now_ns - io->req.held_ns >= SEC;

	expect(w, INSIDE, io->mark[MARK_ARRIVAL] > *last,
	       "group %u: arrival %llu was sent after %llu",
	       g, io->mark[MARK_ARRIVAL], *last);
	*last = max(*last, io->mark[MARK_ARRIVAL]);
	for (p = 0; p < prio && !aged; p++)
		expect(w, INSIDE, !w->held_prio[g][p],
		       "group %u: priority %u was sent while it held %u",
		       g, prio, p);
}

static void on_take(struct sim *s, struct sim_io *io, u64 tag)
{
	struct watcher *w = watcher(s);
	u32 g = io->group;
	const struct ioband_share *share = &s->groups[g].share;
	u64 passed = w->taken - io->mark[MARK_TAKEN];
	u64 moved = share->tag - tag;

	w->takes++;
	w->t = fmaxl(w->t, burst(s));
	check_inside(s, io);
	expect(w, CHARGES, moved == ((u64)io->tokens << IOBAND_TAG_SHIFT) /
	       share->weight,
	       "group %u: %u tokens of weight %u moved its tag by %llu",
	       g, io->tokens, share->weight, moved);
	w->charged[g] += io->tokens;
	w->held_tokens[g][io->req.dir] -= io->tokens;
	w->held_prio[g][io->req.prio]--;
	w->v[g] += (long double)io->tokens / share->weight;
	watch_fairness(s, g);

	/* Priorities and new weights change who is ahead of whom. */
	if (!w->prios && io->mark[MARK_REWEIGHS] == w->reweighs) {
		u64 waited = s->now_ns - io->req.held_ns;
		u64 bound = io->mark[MARK_BOUND];

		expect(w, WAIT_TOKENS, passed <= bound,
		       "group %u: %llu tokens passed an I/O, bound %llu",
		       g, passed, bound);
		expect(w, WAIT_TIME,
		       bound > U32_MAX || waited <= wait_time_bound(s, bound),
		       "group %u: an I/O was held for %llu ns, bound %llu",
		       g, waited, wait_time_bound(s, bound));
	}
	w->taken += io->tokens;
}

static void on_done(struct sim *s, struct sim_io *io)
{
	struct watcher *w = watcher(s);

	(void)io;
	w->top_service_ns = max(w->top_service_ns, s->sched.service_ns);
	w->fades += s->sched.busy_ns < w->core_busy_ns;
	w->core_busy_ns = s->sched.busy_ns;
}

static void on_reweigh(struct sim *s, u32 group, u32 old_weight)
{
	struct watcher *w = watcher(s);
	u32 m;

	(void)old_weight;
	w->reweighs++;
	w->t = fmaxl(w->t, burst(s));
	w->top_weight[group] = max(w->top_weight[group],
				   s->groups[group].share.weight);
	if (!s->groups[group].share.held)
		return;
	for (m = 0; m < s->cfg.nr_groups; m++)
		if (m != group && s->groups[m].share.held)
			pair_begin(s, group, m);
}

static void on_settled(struct sim *s, const struct ioband_req *next,
		       u64 until_ns)
{
	struct watcher *w = watcher(s);
	bool room = s->in_flight < s->cfg.depth && s->sched.held;

	expect(w, CONSERVING, !next, "at %llu: an I/O isn't sent", s->now_ns);
	expect(w, CONSERVING, !room || until_ns > s->now_ns,
	       "at %llu: %u of %u in flight, %u held, and nothing awaited",
	       s->now_ns, s->in_flight, s->cfg.depth, s->sched.held);
	expect(w, CONSERVING, room || !until_ns,
	       "at %llu: no room and yet a time to ask again", s->now_ns);
	expect(w, CONSERVING, !until_ns || until_ns <=
	       s->now_ns + s->sched.service_ns / 4,
	       "at %llu: awaits for more than 1/4 of an I/O", s->now_ns);
}

static const struct sim_watch watch = {
	.fold		= on_fold,
	.before_hold	= on_before_hold,
	.hold		= on_hold,
	.take		= on_take,
	.done		= on_done,
	.reweigh	= on_reweigh,
	.settled	= on_settled,
};

/* --- scenarios --- */

static void random_load(struct sim_rand *r, struct sim_config *c,
			struct sim_load *l, u64 service_ns)
{
	u32 kind = sim_rand_range(r, 0, 9);

	l->kind = kind < 5 ? SIM_READERS : kind < 8 ? SIM_QUEUE : SIM_OPEN;
	l->n = sim_rand_log(r, 1, 2 * c->depth + 2);
	switch (sim_rand_range(r, 0, 2)) {
	case 0:
		l->write_pct = 0;
		break;
	case 1:
		l->write_pct = 100;
		break;
	default:
		l->write_pct = sim_rand_range(r, 1, 99);
	}
	l->think_ns = sim_rand_log(r, 1, service_ns / 2);
	if (l->kind == SIM_OPEN)
		l->think_ns = sim_rand_log(r, service_ns / 64 + 1,
					   service_ns);
	l->think_jitter_pct = sim_rand_range(r, 0, 100);
	if (!sim_rand_range(r, 0, 3)) {
		l->pause_pct = sim_rand_range(r, 1, 60);
		l->pause_ns = sim_rand_log(r, 1, service_ns * 8);
	}
	l->min_sectors = sim_rand_log(r, 1, 64);
	l->max_sectors = l->min_sectors * sim_rand_log(r, 1, 32);
	l->max_ios = sim_rand_log(r, 1, 16);
	l->prio = IOBAND_PRIO_BE;
	if (sim_rand_range(r, 0, 1)) {
		l->on_ns = service_ns * sim_rand_log(r, 2, 64);
		l->off_ns = service_ns * sim_rand_log(r, 1, 64);
		l->start_ns = service_ns * sim_rand_range(r, 0, 16);
	}
}

static u64 random_scenario(struct sim_config *c, u64 seed)
{
	struct sim_rand r;
	u64 service_ns, run_ns;
	bool prios;
	u32 i, j, loads;

	memset(c, 0, sizeof(*c));
	sim_rand_seed(&r, seed);
	c->seed = seed;
	c->depth = sim_rand_log(&r, 1, 64);
	c->carryover = 1;
	if (sim_rand_range(&r, 0, 1))
		c->token_base = sim_rand_log(&r, 1, 2000);
	if (!sim_rand_range(&r, 0, 2))
		c->carryover = sim_rand_range(&r, 0, 16);
	if (sim_rand_range(&r, 0, 1))
		c->policy = ioband_policy_find("weight-iosize");
	if (sim_rand_range(&r, 0, 1))
		c->dispatch_ns = sim_rand_range(&r, 0, 10 * USEC);
	if (sim_rand_range(&r, 0, 1))
		c->first_tag = sim_rand_next(&r);
	service_ns = sim_rand_log(&r, 50 * USEC, 10 * MSEC);
	c->disk.servers = sim_rand_range(&r, 0, 1) ? c->depth :
			  sim_rand_log(&r, 1, 64);
	c->disk.read_ns = service_ns;
	if (sim_rand_range(&r, 0, 1))
		c->disk.write_ns = sim_rand_jitter(&r, service_ns, 80);
	if (!sim_rand_range(&r, 0, 2))
		c->disk.bytes_per_sec = sim_rand_log(&r, 10000000, 1000000000);
	c->disk.jitter_pct = sim_rand_range(&r, 0, 60);
	run_ns = service_ns * sim_rand_range(&r, 150, 500) /
		 min(c->disk.servers, c->depth);
	run_ns = max(run_ns, 20 * service_ns);
	if (!sim_rand_range(&r, 0, 3)) {
		c->disk.change_ns = sim_rand_range(&r, 1, run_ns);
		c->disk.change_pct = sim_rand_range(&r, 30, 300);
	}

	c->nr_groups = sim_rand_range(&r, 2, 8);
	prios = !sim_rand_range(&r, 0, 3);
	for (i = 0; i < c->nr_groups; i++) {
		c->weights[i] = sim_rand_range(&r, 0, 1) ?
			sim_rand_log(&r, 1, IOBAND_WEIGHT_MAX) :
			100 * sim_rand_range(&r, 1, 4);
		loads = sim_rand_range(&r, 1, 2);
		for (j = 0; j < loads; j++) {
			struct sim_load *l = &c->loads[c->nr_loads++];

			l->group = i;
			random_load(&r, c, l, service_ns);
			if (prios) {
				l->prio = sim_rand_range(&r, 0, 16);
				l->prios = sim_rand_range(&r, 0, 17 - l->prio);
			}
		}
	}
	if (!sim_rand_range(&r, 0, 2)) {
		c->nr_changes = sim_rand_range(&r, 1, 4);
		for (i = 0; i < c->nr_changes; i++) {
			c->changes[i].at_ns = MSEC +
					      sim_rand_range(&r, 1, run_ns);
			c->changes[i].group =
				sim_rand_range(&r, 0, c->nr_groups - 1);
			c->changes[i].number =
				sim_rand_log(&r, 1, IOBAND_WEIGHT_MAX);
		}
	}
	return run_ns;
}

static void watcher_init(struct watcher *w, const struct sim_config *c)
{
	const struct ioband_policy *p = c->policy ?: ioband_policy_next(NULL);
	const struct sim_disk *d = &c->disk;
	u32 i, largest = 0;

	memset(w, 0, sizeof(*w));
	w->seed = c->seed;
	for (i = 0; i < c->nr_groups; i++)
		w->top_weight[i] = c->weights[i];
	for (i = 0; i < c->nr_loads; i++) {
		const struct sim_load *l = &c->loads[i];
		u32 cost = p->cost(max(l->min_sectors, l->max_sectors),
				   max(l->max_ios, 1U));

		w->largest[l->group] = max(w->largest[l->group], cost);
		w->prios |= l->prios || l->prio != IOBAND_PRIO_BE;
		largest = max(largest, l->max_sectors);
	}
	w->worst_disk_ns = max(d->read_ns, d->write_ns);
	if (d->bytes_per_sec)
		w->worst_disk_ns += (u64)largest * SECTOR_BYTES * SEC /
				    d->bytes_per_sec;
	w->worst_disk_ns = w->worst_disk_ns * (100 + d->jitter_pct) / 100;
	if (d->change_ns)
		w->worst_disk_ns = w->worst_disk_ns *
				   max(d->change_pct, 100U) / 100;
}

static void check_end(struct sim *s, struct watcher *w)
{
	u64 weights = 0;
	u32 i, slots;

	for (i = 0; i < s->cfg.nr_groups; i++) {
		const struct sim_group *g = &s->groups[i];

		weights += g->share.weight;
		expect(w, CHARGES, w->charged[i] == g->taken &&
		       w->folded[i] + g->straight == g->passed &&
		       g->taken + g->passed == g->submitted &&
		       g->done == g->submitted,
		       "group %u: %llu submitted, %llu taken, %llu passed, %llu done",
		       i, g->submitted, g->taken, g->passed, g->done);
		expect(w, EMPTY_AT_THE_END, !g->share.held &&
		       RB_EMPTY_NODE(&g->share.node[0]) &&
		       RB_EMPTY_NODE(&g->share.node[1]) &&
		       !rb_first_cached(&g->share.queue[0].reqs) &&
		       !rb_first_cached(&g->share.queue[1].reqs),
		       "group %u: holds %u", i, g->share.held);
	}
	expect(w, EMPTY_AT_THE_END, !s->sched.held && !s->in_flight &&
	       !s->sched.inside && !s->outstanding &&
	       !ioband_wants_room(&s->sched) &&
	       s->sched.root.weights == weights,
	       "%u held, %u in flight, %u inside, %u outstanding, weights %llu",
	       s->sched.held, s->in_flight, s->sched.inside, s->outstanding,
	       s->sched.root.weights);

	/*
	 * 2 % of the time that I/Os were in the disk, 16 I/Os' time, and the
	 * last wait, which may keep all slots for 1/4 of an I/O.
	 */
	slots = s->cfg.depth;
	expect(w, LOST_BOUNDED, s->lost_ns <= s->busy_ns / 50 +
	       16 * w->top_service_ns + slots * (w->top_service_ns / 4 + 1),
	       "lost %llu ns of %llu, mean time of an I/O %llu, depth %u",
	       s->lost_ns, s->busy_ns, w->top_service_ns, s->cfg.depth);
	if (!w->fades)
		expect(w, LOST_MEASURED, s->lost_ns == s->sched.lost_ns,
		       "lost %llu ns, and the core says %llu",
		       s->lost_ns, s->sched.lost_ns);
}

static void run_scenario(u64 seed)
{
	struct sim_config c;
	struct watcher w;
	struct sim *s;
	u64 run_ns;

	run_ns = random_scenario(&c, seed);
	watcher_init(&w, &c);
	c.watch = &watch;
	c.data = &w;
	s = sim_new(&c);
	w.t = burst(s);
	sim_run(s, s->now_ns + run_ns);
	sim_finish(s, s->now_ns + 3600 * SEC);
	check_end(s, &w);
	sim_free(s);
}

/* --- (e) shares of synchronous readers --- */

#define MAX_SHARES	3
#define THINK_NS	(20 * USEC)
#define DISPATCH_NS	(3 * USEC)

struct share_row {
	char name[64];
	struct sim_disk disk;
	u32 nr_groups;
	u32 weights[MAX_SHARES];
	u32 readers[MAX_SHARES];
	u32 write_pct_of_last;
	double least_sum;	/* percent */
};

struct share_result {
	double share[MAX_SHARES];	/* percent */
	double ios;			/* a second */
	double lost;			/* percent of busy slot time */
};

static struct share_result run_shares(const struct share_row *row,
				      bool no_control)
{
	const u64 run_ns = row->disk.servers > 1 ? 10 * SEC : 30 * SEC;
	struct sim_config c = {
		.seed = 1,
		.no_control = no_control,
		.depth = row->disk.servers,
		.carryover = IOBAND_CARRYOVER_DEFAULT,
		.dispatch_ns = DISPATCH_NS,
		.disk = row->disk,
		.nr_groups = row->nr_groups,
		.nr_loads = row->nr_groups,
	};
	struct share_result res = { };
	struct sim *s;
	u64 ios = 0;
	u32 i;

	for (i = 0; i < c.nr_groups; i++) {
		c.weights[i] = row->weights[i];
		c.loads[i].group = i;
		c.loads[i].kind = SIM_READERS;
		c.loads[i].n = row->readers[i];
		c.loads[i].think_ns = THINK_NS;
		c.loads[i].think_jitter_pct = 50;
		c.loads[i].prio = IOBAND_PRIO_BE;
	}
	c.loads[i - 1].write_pct = row->write_pct_of_last;
	s = sim_new(&c);
	sim_run(s, SEC);
	sim_reset_counts(s);
	sim_run(s, SEC + run_ns);
	for (i = 0; i < c.nr_groups; i++)
		ios += s->groups[i].ios;
	for (i = 0; i < c.nr_groups; i++)
		res.share[i] = 100.0 * s->groups[i].ios / ios;
	res.ios = (double)ios * SEC / run_ns;
	res.lost = s->busy_ns ? 100.0 * s->lost_ns / s->busy_ns : 0;
	sim_free(s);
	return res;
}

/*
 * A group can only get its share if it has I/O for it: readers must be at
 * least the group's part of the disk's servers, and all together must be more
 * than the servers, or nothing is ever held.
 */
static bool contended(const struct share_row *row)
{
	u32 i, weights = 0, readers = 0;

	for (i = 0; i < row->nr_groups; i++) {
		weights += row->weights[i];
		readers += row->readers[i];
	}
	for (i = 0; i < row->nr_groups; i++)
		if (row->readers[i] * weights <
		    row->disk.servers * row->weights[i])
			return false;
	return readers > row->disk.servers;
}

static void test_shares(void **state)
{
	const struct share_row *row = *state;
	struct share_result free_run = run_shares(row, true);
	struct share_result got = run_shares(row, false);
	double sum = 100.0 * got.ios / free_run.ios;
	u32 i, weights = 0;

	print_message("# %-43s %5.1f/%5.1f/%5.1f %% sum %5.1f %% of %6.0f/s, lost %.2f %%%s\n",
		      row->name, got.share[0], got.share[1], got.share[2], sum,
		      free_run.ios, got.lost,
		      contended(row) ? "" : ", not contended");
	if (sum < row->least_sum)
		failf("%.2f %% of what the disk does without control", sum);
	for (i = 0; i < row->nr_groups; i++)
		weights += row->weights[i];
	for (i = 0; i < row->nr_groups && contended(row); i++) {
		double want = 100.0 * row->weights[i] / weights;

		if (fabs(got.share[i] - want) > 0.5)
			failf("group %u has %.2f %%, not %.2f %%", i,
				 got.share[i], want);
	}
}

static const struct share_disk {
	u32 servers;
	u64 ms;
} share_disks[] = {
	{ 1, 4 }, { 4, 1 },
};

/* The loads that each disk has to take, ... */
static const struct share_load {
	u32 weights[MAX_SHARES];
	u32 readers[MAX_SHARES];
	u32 write_pct_of_last;
} share_loads[] = {
	{ { 200, 100 }, { 1, 1 }, 0 },
	{ { 200, 100 }, { 2, 2 }, 0 },
	{ { 200, 100 }, { 4, 4 }, 0 },
	{ { 200, 100 }, { 8, 8 }, 0 },
	{ { 200, 100 }, { 16, 16 }, 0 },
	{ { 200, 100 }, { 16, 16 }, 100 },
	{ { 40, 20, 10 }, { 33, 33, 33 }, 0 },
	{ { 40, 20, 10 }, { 33, 33, 33 }, 100 },
};

/*
 * ... and more that each try the edge of something. The weight policy counts
 * requests, so with writes slower than reads a share is one of I/Os, not of
 * time, and the sum may be above that without control.
 */
static const struct share_row edge_rows[] = {
	{ "1x4ms 200:100 1 against 16", { 1, .read_ns = 4 * MSEC }, 2,
	  { 200, 100 }, { 1, 16 }, 0, 98.5 },
	{ "1x4ms 100:200 1 against 16", { 1, .read_ns = 4 * MSEC }, 2,
	  { 100, 200 }, { 1, 16 }, 0, 98.5 },
	{ "4x1ms 200:100 3 each", { 4, .read_ns = MSEC }, 2,
	  { 200, 100 }, { 3, 3 }, 0, 98.5 },
	{ "4x1ms 200:100 3 against 16", { 4, .read_ns = MSEC }, 2,
	  { 200, 100 }, { 3, 16 }, 0, 98.5 },
	/*
	 * A's share are all of its readers: three slots are kept for each 20
	 * us in 1020, which is 1.5 % of the disk.
	 */
	{ "4x1ms 300:100 3 against 16", { 4, .read_ns = MSEC }, 2,
	  { 300, 100 }, { 3, 16 }, 0, 98 },
	{ "8x1ms 200:100 6 each", { 8, .read_ns = MSEC }, 2,
	  { 200, 100 }, { 6, 6 }, 0, 98.5 },
	{ "32x2ms 200:100 16 each", { 32, .read_ns = 2 * MSEC }, 2,
	  { 200, 100 }, { 16, 16 }, 0, 98.5 },
	{ "32x2ms 200:100 64 each", { 32, .read_ns = 2 * MSEC }, 2,
	  { 200, 100 }, { 64, 64 }, 0, 98.5 },
	{ "1x1ms slow writes 200:100 16 each",
	  { 1, .read_ns = MSEC, .write_ns = 5 * MSEC }, 2,
	  { 200, 100 }, { 16, 16 }, 100, 98.5 },
	{ "1x1ms slow writes 200:100 1 each",
	  { 1, .read_ns = MSEC, .write_ns = 5 * MSEC }, 2,
	  { 200, 100 }, { 1, 1 }, 100, 98.5 },
	{ "1x4ms then 2 ms 200:100 1 each",
	  { 1, .read_ns = 4 * MSEC, .change_ns = 15 * SEC, .change_pct = 50 },
	  2, { 200, 100 }, { 1, 1 }, 0, 98.5 },
	{ "1x4ms 32767:1 1 each", { 1, .read_ns = 4 * MSEC }, 2,
	  { 32767, 1 }, { 1, 1 }, 0, 98.5 },
};

static void add_share_tests(struct harness *h)
{
	static struct share_row rows[64];
	struct share_row *row = rows;
	u32 d, jitter, i;

	for (d = 0; d < ARRAY_SIZE(share_disks); d++) {
		for (jitter = 0; jitter <= 30; jitter += 30) {
			for (i = 0; i < ARRAY_SIZE(share_loads); i++) {
				const struct share_load *l = &share_loads[i];

				row->disk.servers = share_disks[d].servers;
				row->disk.read_ns = share_disks[d].ms * MSEC;
				row->disk.jitter_pct = jitter;
				row->nr_groups = l->weights[2] ? 3 : 2;
				memcpy(row->weights, l->weights,
				       sizeof(l->weights));
				memcpy(row->readers, l->readers,
				       sizeof(l->readers));
				row->write_pct_of_last = l->write_pct_of_last;
				row->least_sum = 98.5;
				snprintf(row->name, sizeof(row->name),
					 "%ux%llums jitter %u %s %u each%s",
					 share_disks[d].servers,
					 share_disks[d].ms, jitter,
					 l->weights[2] ? "40:20:10" : "200:100",
					 l->readers[0], l->write_pct_of_last ?
					 ", last writes" : "");
				add_test(h, row->name, test_shares, row);
				row++;
			}
		}
	}
	add_table(h, test_shares, edge_rows);
}

/* --- lost time in long runs --- */

/*
 * The worst for anticipation: readers that just qualify for it, by thinking
 * for as long as that allows, or by often coming back just too late. A and B
 * are such, C always has work.
 */
static const struct lost_row {
	const char *name;
	struct sim_disk disk;
	u32 readers;
	u32 think_part;		/* they think for 1 / so much of an I/O */
	u32 pause_pct;
	u32 pause_part;
} lost_rows[] = {
	{ "lost: 1x1ms slow thinkers", { .servers = 1, .read_ns = MSEC }, 1,
	  10, 0, 1 },
	{ "lost: 1x1ms late comers", { .servers = 1, .read_ns = MSEC }, 1,
	  100, 30, 3 },
	{ "lost: 1x4ms slow thinkers", { .servers = 1, .read_ns = 4 * MSEC }, 1,
	  10, 0, 1 },
	{ "lost: 1x4ms late comers", { .servers = 1, .read_ns = 4 * MSEC }, 1,
	  100, 30, 3 },
	{ "lost: 1x20ms slow thinkers", { .servers = 1, .read_ns = 20 * MSEC },
	  1, 10, 0, 1 },
	{ "lost: 1x20ms late comers", { .servers = 1, .read_ns = 20 * MSEC },
	  1, 100, 30, 3 },
	{ "lost: 4x1ms slow thinkers", { .servers = 4, .read_ns = MSEC }, 3,
	  10, 0, 1 },
	{ "lost: 4x1ms late comers", { .servers = 4, .read_ns = MSEC }, 3,
	  100, 30, 3 },
	{ "lost: 32x2ms slow thinkers", { .servers = 32, .read_ns = 2 * MSEC },
	  16, 10, 0, 1 },
	{ "lost: 32x2ms late comers", { .servers = 32, .read_ns = 2 * MSEC },
	  16, 100, 30, 3 },
};

static void test_lost(void **state)
{
	const struct lost_row *row = *state;
	struct sim_config c = {
		.seed = 7,
		.depth = row->disk.servers,
		.carryover = IOBAND_CARRYOVER_DEFAULT,
		.dispatch_ns = DISPATCH_NS,
		.disk = row->disk,
		.nr_groups = 3,
		.weights = { 400, 200, 10 },
		.nr_loads = 3,
	};
	struct sim *s;
	double lost, most;
	u32 i;

	for (i = 0; i < 3; i++) {
		c.loads[i].group = i;
		c.loads[i].kind = i < 2 ? SIM_READERS : SIM_QUEUE;
		c.loads[i].n = i < 2 ? row->readers : 2 * c.depth;
		c.loads[i].think_ns = row->disk.read_ns / row->think_part;
		c.loads[i].think_jitter_pct = 50;
		c.loads[i].pause_pct = row->pause_pct;
		c.loads[i].pause_ns = row->disk.read_ns / row->pause_part;
		c.loads[i].prio = IOBAND_PRIO_BE;
	}
	s = sim_new(&c);
	sim_run(s, 16000 * row->disk.read_ns);
	lost = 100.0 * s->lost_ns / s->busy_ns;
	/* 2 %, 16 I/Os' time and the last wait, as in check_end(). */
	most = 2 + 100.0 * (16 + c.depth / 4.0) * row->disk.read_ns /
	       s->busy_ns;
	print_message("# %-27s lost %.3f %% of slot time, awaited %llu times\n",
		      row->name, lost, s->sched.idles);
	sim_free(s);
	if (lost > most)
		failf("anticipation lost %.3f %%, bound %.3f %%", lost, most);
}

int main(void)
{
	static struct harness h;

	run_scenarios(run_scenario, FIXED_SEEDS);
	add_verdicts(&h, property_names, verdicts, NR_PROPERTIES);
	if (!getenv("IOBAND_SEED")) {
		add_share_tests(&h);
		add_table(&h, test_lost, lost_rows);
	}
	return run_harness(&h, "properties");
}
