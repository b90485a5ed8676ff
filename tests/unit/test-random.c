// SPDX-License-Identifier: GPL-2.0-only
/*
 * What must hold of trees, limits and minimums whatever the load, the disk and
 * the administrator do: random trees on simulated disks, in which everything
 * is changed while I/O is held. The core's own state is checked at each step.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "check.h"
#include "sim.h"
#include "verdict.h"

#define FIXED_SEEDS	2500
#define NR_DIRS		IOBAND_NR_DIRS
#define NR_LIMITS	IOBAND_NR_LIMITS

__extension__ typedef __int128 s128;

enum property {
	INSIDE,
	GATE,
	ONCE,
	WINDOW,
	PAUSE,
	CONSERVING,
	UNTIL,
	ORDER,
	TAGS,
	CHARGES,
	EMPTY_AT_THE_END,
	NR_PROPERTIES,
};

static const char *const property_names[NR_PROPERTIES] = {
	[INSIDE]	= "the core's own state is right after each step",
	[GATE]		= "what is sent passes each limit above it",
	[ONCE]		= "each limit above is charged once, no other",
	[WINDOW]	= "rate * t, the bucket and the largest in any window",
	[PAUSE]		= "no pause is longer than a held I/O has to wait",
	[CONSERVING]	= "what no limit forbids is sent if there is room",
	[UNTIL]		= "asked again when the first pause ends",
	[ORDER]		= "the least tag of each level is served",
	[TAGS]		= "each level's tag moves by tokens / weight, no other",
	[CHARGES]	= "sum of charges is sum of costs",
	[EMPTY_AT_THE_END] = "nothing is left held or in flight",
};

static struct verdict verdicts[NR_PROPERTIES];

/* An exact bucket: x is rate * the time when it is full, in 10^-9 tokens. */
struct model {
	u64 rate;
	u64 burst_ns;
	s128 x;
	/* What was sent beyond rate * t, and the least that this ever was. */
	s128 sent;
	s128 least;
	u64 since_ns;
};

struct watcher {
	u64 seed;
	struct model models[SIM_MAX_GROUPS][NR_LIMITS];
	/* Largest I/O there is in each limit's tokens. */
	u64 largest[NR_LIMITS];
	/* Pauses that began before a change took away what they were for. */
	u64 old_pause[SIM_MAX_GROUPS][NR_DIRS];
	bool minimums;
	u64 taken[SIM_MAX_GROUPS];
	/* Before a take. */
	u64 tags[SIM_MAX_GROUPS];
	u64 own_tags[SIM_MAX_GROUPS];
	u64 clocks[SIM_MAX_GROUPS + 1];
};

#define expect(w, p, ok, ...) \
	verdict_add(&verdicts[p], (w)->seed, ok, __VA_ARGS__)

static struct watcher *watcher(struct sim *s)
{
	return s->cfg.data;
}

static struct ioband_share *share(struct sim *s, u32 g)
{
	return &s->groups[g].share;
}

static s128 imax(s128 a, s128 b)
{
	return a > b ? a : b;
}

static bool paused(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_NODE(&g->pause[dir].node);
}

static bool queued(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_NODE(&g->node[dir]);
}

static bool is_below(const struct ioband_share *g, const struct ioband_share *top)
{
	for (; g; g = g->parent)
		if (g == top)
			return true;
	return false;
}

/* --- buckets --- */

static u64 limit_tokens(int limit, const struct ioband_req *r)
{
	static const int dirs[NR_LIMITS] = {
		[IOBAND_RBPS]	= IOBAND_READ,
		[IOBAND_WBPS]	= IOBAND_WRITE,
		[IOBAND_RIOPS]	= IOBAND_READ,
		[IOBAND_WIOPS]	= IOBAND_WRITE,
		[IOBAND_MAX_BW]	= -1,
	};

	if (dirs[limit] >= 0 && dirs[limit] != r->dir)
		return 0;
	return limit == IOBAND_RIOPS || limit == IOBAND_WIOPS ? r->ios :
	       (u64)r->sectors * SECTOR_BYTES;
}

static s128 model_size(const struct model *m, int limit)
{
	u64 least = limit == IOBAND_RIOPS || limit == IOBAND_WIOPS ? 1 :
		    limit == IOBAND_MAX_BW ? 0 : SIM_LARGEST;

	return imax((s128)m->rate * m->burst_ns, (s128)least * SEC);
}

/* When an I/O may pass, times the rate. */
static s128 model_ready(const struct model *m, int limit, u64 tokens)
{
	s128 size = model_size(m, limit);
	s128 cost = (s128)tokens * SEC;

	return tokens ? m->x - imax(size - cost, 0) : 0;
}

static s128 core_x(const struct ioband_bucket *b)
{
	return (s128)b->full_ns * b->rate + b->rest;
}

/* After changes: the core's state is the model's from here on. */
static void models_follow(struct sim *s, bool all)
{
	struct watcher *w = watcher(s);
	u32 g;
	int i;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		for (i = 0; i < NR_LIMITS; i++) {
			const struct ioband_bucket *b = &share(s, g)->bucket[i];
			struct model *m = &w->models[g][i];

			if (!all && m->rate == b->rate &&
			    m->burst_ns == share(s, g)->burst_ns)
				continue;
			m->rate = b->rate;
			m->burst_ns = share(s, g)->burst_ns;
			m->x = core_x(b);
			m->sent = 0;
			m->least = 0;
			m->since_ns = s->now_ns;
		}
	}
}

static void models_compare(struct sim *s, const struct sim_io *io)
{
	struct watcher *w = watcher(s);
	u32 g;
	int i;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		for (i = 0; i < NR_LIMITS; i++) {
			const struct model *m = &w->models[g][i];

			if (!m->rate)
				continue;
			expect(w, ONCE, core_x(&share(s, g)->bucket[i]) == m->x,
			       "at %llu: an I/O of group %u, limit %d of group %u: full %lld ns off",
			       s->now_ns, io->group, i, g, (long long)
			       ((core_x(&share(s, g)->bucket[i]) - m->x) /
				(s128)m->rate));
		}
	}
}

static void model_send(struct sim *s, u32 g, int limit, u64 tokens)
{
	struct watcher *w = watcher(s);
	struct model *m = &w->models[g][limit];
	s128 now = (s128)s->now_ns * m->rate;
	s128 beyond;

	if (!m->rate || !tokens)
		return;
	expect(w, GATE, model_ready(m, limit, tokens) < now + 2 * (s128)m->rate,
	       "at %llu: %llu tokens pass limit %d (%llu) of group %u",
	       s->now_ns, tokens, limit, m->rate, g);
	m->x = imax(m->x, now) + (s128)tokens * SEC;

	beyond = m->sent - (s128)m->rate * (s->now_ns - m->since_ns);
	if (beyond < m->least)
		m->least = beyond;
	m->sent += (s128)tokens * SEC;
	beyond += (s128)tokens * SEC;
	expect(w, WINDOW, beyond - m->least <= model_size(m, limit) +
	       (s128)w->largest[limit] * SEC + 4 * (s128)m->rate,
	       "at %llu: limit %d (%llu) of group %u: %lld tokens beyond, size %lld",
	       s->now_ns, limit, m->rate, g,
	       (long long)((beyond - m->least) / (s128)SEC),
	       (long long)(model_size(m, limit) / (s128)SEC));
}

/* --- order --- */

static u32 directions(const struct ioband_share *g)
{
	u32 dirs = 3;
	int dir;

	for (; g; g = g->parent)
		for (dir = 0; dir < NR_DIRS; dir++)
			if (!queued(g, dir))
				dirs &= ~(1U << dir);
	return dirs;
}

/* The directions in which a group's own I/O can be reached. */
static u32 own_directions(const struct ioband_share *g)
{
	u32 dirs = directions(g);
	int dir;

	for (dir = 0; dir < NR_DIRS; dir++)
		if (!rb_first_cached(&g->queue[dir].reqs))
			dirs &= ~(1U << dir);
	return dirs;
}

static void check_order(struct sim *s, const struct sim_io *io)
{
	struct watcher *w = watcher(s);
	const struct ioband_share *a = share(s, io->group), *b;
	u32 g;

	for (g = 0; g < s->cfg.nr_groups; g++)
		if (share(s, g)->parent == a && directions(share(s, g)))
			expect(w, ORDER,
			       (s64)(share(s, g)->tag - a->own_tag) >= 0,
			       "at %llu: own I/O of group %u before child %u",
			       s->now_ns, io->group, g);
	for (; a; a = a->parent) {
		if (a->parent && own_directions(a->parent))
			expect(w, ORDER, (s64)(a->parent->own_tag - a->tag) > 0,
			       "at %llu: child %u before own I/O of its parent",
			       s->now_ns, sim_share_index(s, a));
		for (g = 0; g < s->cfg.nr_groups; g++) {
			b = share(s, g);
			if (b == a || b->parent != a->parent || !directions(b))
				continue;
			expect(w, ORDER, (s64)(b->tag - a->tag) >= 0,
			       "at %llu: group %u before %u", s->now_ns,
			       sim_share_index(s, a), g);
		}
	}
}

static const struct ioband_level *level(struct sim *s, u32 i)
{
	return i ? &share(s, i - 1)->below : &s->sched.root;
}

static void on_before_take(struct sim *s, struct sim_io *io)
{
	struct watcher *w = watcher(s);
	u32 g;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		w->tags[g] = share(s, g)->tag;
		w->own_tags[g] = share(s, g)->own_tag;
	}
	for (g = 0; g <= s->cfg.nr_groups; g++)
		w->clocks[g] = level(s, g)->tag;
	/* A burst or a minimum goes before. */
	if (!s->sched.batch && !w->minimums)
		check_order(s, io);
}

static void check_tags(struct sim *s, struct sim_io *io)
{
	const struct ioband_share *own = share(s, io->group);
	struct watcher *w = watcher(s);
	u64 tokens = s->sched.policy->cost(io->req.sectors, io->req.ios);
	u32 g;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		const struct ioband_share *a = share(s, g);
		u64 step = (tokens << IOBAND_TAG_SHIFT) / a->weight;
		u64 moved = a->tag - w->tags[g];
		u64 own_moved = a->own_tag - w->own_tags[g];

		if (!w->minimums)
			expect(w, TAGS, moved == (is_below(own, a) ? step : 0),
			       "at %llu: an I/O of group %u moves group %u by %llu",
			       s->now_ns, io->group, g, moved);
		expect(w, TAGS, own_moved == (own == a ? step : 0),
		       "at %llu: an I/O of group %u moves own of group %u by %llu",
		       s->now_ns, io->group, g, own_moved);
	}
	for (g = 0; g <= s->cfg.nr_groups; g++)
		expect(w, TAGS, (s64)(level(s, g)->tag - w->clocks[g]) >= 0,
		       "at %llu: a clock goes back", s->now_ns);
}

static void on_take(struct sim *s, struct sim_io *io, u64 tag)
{
	struct watcher *w = watcher(s);
	const struct ioband_share *a;
	int i;

	(void)tag;
	w->taken[io->group] += io->tokens;
	for (a = share(s, io->group); a; a = a->parent)
		for (i = 0; i < NR_LIMITS; i++)
			model_send(s, sim_share_index(s, a), i,
				   limit_tokens(i, &io->req));
	models_compare(s, io);
	check_tags(s, io);
}

/* --- debts and changes --- */

static void on_debt(struct sim *s, struct sim_io *io)
{
	struct watcher *w = watcher(s);
	const struct ioband_share *own = share(s, io->group);
	u32 g;
	int i;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		const struct ioband_share *a = share(s, g);

		for (i = 0; i < NR_LIMITS; i++) {
			struct model *m = &w->models[g][i];
			u64 tokens = is_below(own, a) ?
				     limit_tokens(i, &io->req) : 0;
			s128 now = (s128)s->now_ns * m->rate, most, want;

			if (!m->rate)
				continue;
			want = m->x;
			if (tokens) {
				/* A second's worth beyond empty at most. */
				most = imax(m->x, now + (s128)SEC * m->rate +
					    model_size(m, i));
				want = imax(m->x, now) + (s128)tokens * SEC;
				if (want > most)
					want = most;
			}
			m->x = core_x(&a->bucket[i]);
			expect(w, ONCE, m->x <= want + 2 * (s128)m->rate &&
			       m->x >= want - 2 * (s128)m->rate,
			       "at %llu: a debt of group %u, limit %d of group %u: full at %lld, not %lld",
			       s->now_ns, io->group, i, g,
			       (long long)(m->x / (s128)m->rate),
			       (long long)(want / (s128)m->rate));
		}
	}
}

static void on_change(struct sim *s, const struct sim_change *c)
{
	struct watcher *w = watcher(s);
	u32 g;
	int dir;

	models_follow(s, false);
	for (g = 0; g < s->cfg.nr_groups; g++)
		w->minimums |= share(s, g)->min_bps;
	if (c->kind != SIM_PARENT && c->kind != SIM_SUSPEND)
		return;
	/* The I/O that a pause was for may be elsewhere now. */
	for (g = 0; g < s->cfg.nr_groups; g++)
		for (dir = 0; dir < NR_DIRS; dir++)
			if (paused(share(s, g), dir))
				w->old_pause[g][dir] =
					share(s, g)->pause[dir].ready_ns;
}

/* --- after each answer --- */

/* The time, times the rate, that the slowest held I/O below waits for. */
static s128 slowest(struct sim *s, u32 top, int dir, int limit)
{
	const struct model *m = &watcher(s)->models[top][limit];
	u64 tokens = 0;
	u32 g;
	int d;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		if (!is_below(share(s, g), share(s, top)))
			continue;
		for (d = 0; d < NR_DIRS; d++) {
			struct rb_node *n;

			/* A maximum is for both directions. */
			if (d != dir && limit != IOBAND_MAX_BW)
				continue;
			n = rb_first_cached(&share(s, g)->queue[d].reqs);
			for (; n; n = rb_next(n))
				tokens = max(tokens, limit_tokens(limit,
					rb_entry(n, struct ioband_req, node)));
		}
	}
	return model_ready(m, limit, tokens);
}

static void check_pauses(struct sim *s)
{
	struct watcher *w = watcher(s);
	u32 g;
	int dir;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		for (dir = 0; dir < NR_DIRS; dir++) {
			const struct ioband_pause *p = &share(s, g)->pause[dir];
			u64 rate = w->models[g][p->limit].rate;

			if (!paused(share(s, g), dir) ||
			    w->old_pause[g][dir] == p->ready_ns)
				continue;
			expect(w, PAUSE, rate && (s128)p->ready_ns * rate <=
			       slowest(s, g, dir, p->limit) + (s128)rate,
			       "at %llu: group %u, direction %d is paused until %llu by limit %d",
			       s->now_ns, g, dir, p->ready_ns, p->limit);
		}
	}
}

/* Is any I/O held that isn't behind a pause? */
static bool anything(struct sim *s)
{
	const struct ioband_share *a;
	u32 g;
	int dir;

	for (g = 0; g < s->cfg.nr_groups; g++) {
		for (dir = 0; dir < NR_DIRS; dir++) {
			if (!rb_first_cached(&share(s, g)->queue[dir].reqs))
				continue;
			for (a = share(s, g); a && !paused(a, dir);)
				a = a->parent;
			if (!a)
				return true;
		}
	}
	return false;
}

static void on_settled(struct sim *s, const struct ioband_req *next,
		       u64 until_ns)
{
	struct watcher *w = watcher(s);
	/* What the limit leaves no room for waits for a completion. */
	bool full = next && s->in_flight &&
		    s->in_flight + next->ios > s->limit;
	bool room = s->in_flight < s->depth && !full;
	bool awaits = s->sched.idle_ns;
	struct rb_node *n = rb_first_cached(&s->sched.paused);
	u64 first = n ? rb_entry(n, struct ioband_pause, node)->ready_ns : 0;
	bool any = anything(s);

	expect(w, CONSERVING, any == ioband_wants_room(&s->sched),
	       "at %llu: %s I/O wants room", s->now_ns, any ? "no" : "some");
	expect(w, CONSERVING, !room || !any || awaits,
	       "at %llu: %u of %u in flight, something isn't sent", s->now_ns,
	       s->in_flight, s->depth);
	if (!room)
		expect(w, UNTIL, !until_ns, "at %llu: no room, yet until %llu",
		       s->now_ns, until_ns);
	else if (!awaits)
		expect(w, UNTIL, until_ns == first,
		       "at %llu: until %llu, the first pause ends at %llu",
		       s->now_ns, until_ns, first);
	else
		expect(w, UNTIL, until_ns > s->now_ns &&
		       (!first || until_ns <= first),
		       "at %llu: awaits until %llu, the first pause ends at %llu",
		       s->now_ns, until_ns, first);
	check_pauses(s);
}

static void on_step(struct sim *s)
{
	struct watcher *w = watcher(s);
	const struct ioband_share *groups[SIM_MAX_GROUPS];
	const char *wrong;
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++)
		groups[i] = share(s, i);
	wrong = check_core(&s->sched, groups, s->cfg.nr_groups);
	expect(w, INSIDE, !wrong, "at %llu: %s", s->now_ns, wrong);
}

static const struct sim_watch watch = {
	.before_take	= on_before_take,
	.take		= on_take,
	.debt		= on_debt,
	.change		= on_change,
	.settled	= on_settled,
	.step		= on_step,
};

/* --- scenarios --- */

static u64 random_rate(struct sim_rand *r, u64 disk)
{
	/* Mostly about what the disk does, now and then out of all reason. */
	switch (sim_rand_range(r, 0, 19)) {
	case 0:
		return sim_rand_log(r, 1, 1ULL << 62);
	case 1:
		return S64_MAX;
	default:
		return sim_rand_log(r, disk / 128 + 1, disk * 2 + 1);
	}
}

static void random_limits(struct sim_rand *r, u64 *rates, u64 disk_bps,
			  u64 disk_iops, u32 one_in)
{
	int i;

	for (i = 0; i < IOBAND_MAX_BW; i++)
		rates[i] = sim_rand_range(r, 1, one_in) > 1 ? 0 :
			   random_rate(r, i == IOBAND_RBPS || i == IOBAND_WBPS ?
				       disk_bps : disk_iops);
}

/* KiB a second, as the table line has it. */
static u64 random_kib(struct sim_rand *r, u64 disk_bps)
{
	return sim_rand_range(r, 0, 1) ?
	       sim_rand_log(r, disk_bps / 65536 + 1, disk_bps / 1024 + 1) * 1024 :
	       0;
}

static u32 random_weight(struct sim_rand *r)
{
	return sim_rand_range(r, 0, 1) ?
	       sim_rand_log(r, 1, IOBAND_WEIGHT_MAX) :
	       100 * sim_rand_range(r, 1, 4);
}

static const struct ioband_policy *random_policy(struct sim_rand *r)
{
	static const char *const names[] = {
		"weight", "weight-iosize", "range-bw",
	};

	return ioband_policy_find(names[sim_rand_range(r, 0, 2)]);
}

/* Would @g be above itself? */
static bool loop(const u32 *parents, u32 g, u32 parent)
{
	for (; parent; parent = parents[parent - 1])
		if (parent - 1 == g)
			return true;
	return false;
}

static void random_change(struct sim_rand *r, const struct sim_config *c,
			  struct sim_change *ch, u32 *parents, u64 disk_bps,
			  u64 disk_iops)
{
	ch->kind = sim_rand_range(r, SIM_WEIGHT, SIM_RESUME);
	ch->group = sim_rand_range(r, 0, c->nr_groups - 1);
	switch (ch->kind) {
	case SIM_WEIGHT:
		ch->number = random_weight(r);
		break;
	case SIM_LIMITS:
		random_limits(r, ch->rates, disk_bps, disk_iops, 2);
		ch->burst_ns = sim_rand_log(r, MSEC, 8 * SEC);
		break;
	case SIM_PARENT:
		ch->number = sim_rand_range(r, 0, c->nr_groups);
		if (loop(parents, ch->group, ch->number))
			ch->number = 0;
		parents[ch->group] = ch->number;
		break;
	case SIM_RANGE:
		ch->min_bps = random_kib(r, disk_bps);
		ch->max_bps = random_kib(r, disk_bps);
		break;
	case SIM_POLICY:
		ch->policy = random_policy(r);
		break;
	case SIM_DEPTH:
		ch->number = sim_rand_range(r, 0, 2) ? sim_rand_log(r, 1, 64) :
						       0;
		break;
	case SIM_LIMIT:
		ch->number = sim_rand_log(r, 1, 128);
		break;
	case SIM_BURST:
		ch->number = sim_rand_range(r, 0, 1) ?
			     sim_rand_log(r, 1, 2000) : 0;
		break;
	default:
		break;
	}
}

static void random_load(struct sim_rand *r, const struct sim_config *c,
			struct sim_load *l, u64 service_ns)
{
	u32 kind = sim_rand_range(r, 0, 9);

	l->kind = kind < 4 ? SIM_READERS : kind < 7 ? SIM_QUEUE : SIM_OPEN;
	l->n = sim_rand_log(r, 1, (c->depth ?: 32) + 2);
	l->write_pct = sim_rand_range(r, 0, 1) ? sim_rand_range(r, 0, 100) :
		       100 * sim_rand_range(r, 0, 1);
	l->think_ns = l->kind == SIM_OPEN ?
		      sim_rand_log(r, service_ns / 64 + 1, service_ns) :
		      sim_rand_log(r, 1, service_ns / 2);
	l->think_jitter_pct = sim_rand_range(r, 0, 100);
	l->min_sectors = sim_rand_log(r, 1, 64);
	l->max_sectors = l->min_sectors * sim_rand_log(r, 1, 32);
	l->max_ios = sim_rand_log(r, 1, 16);
	l->prio = IOBAND_PRIO_BE;
	if (!sim_rand_range(r, 0, 3))
		l->prios = sim_rand_range(r, 1, 8);
	if (!sim_rand_range(r, 0, 5))
		l->urgent_pct = sim_rand_range(r, 1, 50);
	if (sim_rand_range(r, 0, 1)) {
		l->on_ns = service_ns * sim_rand_log(r, 2, 64);
		l->off_ns = service_ns * sim_rand_log(r, 1, 64);
		l->start_ns = service_ns * sim_rand_range(r, 0, 16);
	}
}

static void random_disk(struct sim_rand *r, struct sim_disk *d, u32 depth)
{
	d->kind = sim_rand_range(r, 0, 1) ? DISK_SERVERS :
		  sim_rand_range(r, DISK_ROTATES, DISK_CHANNELS);
	d->servers = depth && sim_rand_range(r, 0, 1) ? depth :
		     sim_rand_log(r, 1, 64);
	d->read_ns = sim_rand_log(r, 50 * USEC, 10 * MSEC);
	d->jitter_pct = sim_rand_range(r, 0, 60);
	if (sim_rand_range(r, 0, 1))
		d->write_ns = d->read_ns * sim_rand_range(r, 1, 4);
	if (sim_rand_range(r, 0, 1))
		d->stall_every = sim_rand_log(r, 4, 256);
}

static u64 random_scenario(struct sim_config *c, u64 seed)
{
	struct sim_rand r;
	u64 service_ns, run_ns, at_ns, disk_bps, disk_iops;
	u32 parents[SIM_MAX_GROUPS];
	u32 at_once, i;
	bool range;

	memset(c, 0, sizeof(*c));
	sim_rand_seed(&r, seed);
	c->seed = seed;
	c->depth = sim_rand_log(&r, 1, 64);
	c->carryover = sim_rand_range(&r, 0, 2) ? 1 : sim_rand_range(&r, 0, 16);
	if (!sim_rand_range(&r, 0, 2))
		c->token_base = sim_rand_log(&r, 1, 2000);
	c->policy = random_policy(&r);
	if (sim_rand_range(&r, 0, 1))
		c->dispatch_ns = sim_rand_range(&r, 0, 10 * USEC);
	if (sim_rand_range(&r, 0, 1))
		c->first_tag = sim_rand_next(&r);
	/* From a moment after boot to years later. */
	c->start_ns = sim_rand_log(&r, MSEC, 1ULL << 57);
	/* Half of the disks are never what limits. */
	if (sim_rand_range(&r, 0, 1))
		c->depth = 64;
	if (!sim_rand_range(&r, 0, 2))
		c->depth = 0;
	if (!sim_rand_range(&r, 0, 2))
		c->limit = sim_rand_log(&r, c->depth ?: 1, 128);
	random_disk(&r, &c->disk, c->depth);
	service_ns = disk_read_ns(&c->disk);
	at_once = c->disk.kind == DISK_ROTATES ? 1 : c->disk.servers;
	at_once = min(at_once, c->depth ?: 8);
	disk_iops = at_once * SEC / service_ns;
	disk_bps = disk_iops * 64 * SECTOR_BYTES;
	run_ns = service_ns * sim_rand_range(&r, 100, 300) / at_once;
	run_ns = max(run_ns, 20 * service_ns);

	c->nr_groups = sim_rand_range(&r, 1, 10);
	range = sim_rand_range(&r, 0, 1);
	for (i = 0; i < c->nr_groups; i++) {
		c->weights[i] = random_weight(&r);
		c->parents[i] = sim_rand_range(&r, 0, i);
		parents[i] = c->parents[i];
		random_limits(&r, c->rates[i], disk_bps, disk_iops, 6);
		c->burst_ns[i] = sim_rand_log(&r, MSEC, 8 * SEC);
		if (range) {
			c->min_bps[i] = random_kib(&r, disk_bps);
			c->max_bps[i] = random_kib(&r, disk_bps);
		}
		if (sim_rand_range(&r, 0, 2)) {
			struct sim_load *l = &c->loads[c->nr_loads++];

			l->group = i;
			random_load(&r, c, l, service_ns);
			if (l->start_ns)
				l->start_ns += c->start_ns;
		}
	}
	if (sim_rand_range(&r, 0, 1))
		c->nr_changes = sim_rand_range(&r, 1, SIM_MAX_CHANGES);
	at_ns = c->start_ns;
	for (i = 0; i < c->nr_changes; i++) {
		at_ns += sim_rand_range(&r, 1, 2 * run_ns / c->nr_changes);
		c->changes[i].at_ns = at_ns;
		random_change(&r, c, &c->changes[i], parents, disk_bps,
			      disk_iops);
	}
	return run_ns;
}

static void watcher_init(struct watcher *w, const struct sim_config *c)
{
	u32 i;

	memset(w, 0, sizeof(*w));
	w->seed = c->seed;
	for (i = 0; i < c->nr_loads; i++) {
		const struct sim_load *l = &c->loads[i];

		w->largest[IOBAND_RBPS] = max(w->largest[IOBAND_RBPS],
					      (u64)l->max_sectors *
					      SECTOR_BYTES);
		w->largest[IOBAND_RIOPS] = max(w->largest[IOBAND_RIOPS],
					       (u64)l->max_ios);
	}
	w->largest[IOBAND_WBPS] = w->largest[IOBAND_RBPS];
	w->largest[IOBAND_MAX_BW] = w->largest[IOBAND_RBPS];
	w->largest[IOBAND_WIOPS] = w->largest[IOBAND_RIOPS];
	for (i = 0; i < c->nr_groups; i++)
		w->minimums |= c->min_bps[i];
}

static void check_end(struct sim *s, struct watcher *w)
{
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++) {
		const struct sim_group *g = &s->groups[i];

		expect(w, CHARGES, w->taken[i] == g->taken &&
		       g->taken + g->passed == g->submitted &&
		       g->done == g->submitted,
		       "group %u: %llu submitted, %llu taken, %llu passed, %llu done",
		       i, g->submitted, g->taken, g->passed, g->done);
		expect(w, EMPTY_AT_THE_END, !g->share.held,
		       "group %u: holds %u", i, g->share.held);
	}
	expect(w, EMPTY_AT_THE_END, !s->sched.held && !s->in_flight &&
	       !s->sched.inside && !s->outstanding &&
	       !ioband_wants_room(&s->sched) &&
	       !rb_first_cached(&s->sched.paused),
	       "%u held, %u in flight, %u inside, %u outstanding", s->sched.held,
	       s->in_flight, s->sched.inside, s->outstanding);
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
	models_follow(s, true);
	sim_run(s, s->now_ns + run_ns);
	/* A thousand years, at a byte a second. */
	sim_finish(s, 1ULL << 62);
	check_end(s, &w);
	sim_free(s);
}

int main(void)
{
	static struct harness h;

	run_scenarios(run_scenario, FIXED_SEEDS);
	add_verdicts(&h, property_names, verdicts, NR_PROPERTIES);
	return run_harness(&h, "random");
}
