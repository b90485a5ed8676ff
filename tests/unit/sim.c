// SPDX-License-Identifier: GPL-2.0-only
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <linux/minmax.h>

#include "sim.h"

enum sim_event_kind {
	EV_SUBMIT,	/* a reader or queue slot of load @arg sends */
	EV_OPEN,	/* an arrival of the open load @arg */
	EV_COMPLETE,	/* of @io */
	EV_WORKER,
	EV_TIMER,
	EV_CHANGE,	/* number @arg of the configuration's changes */
};

struct sim_event {
	u64 at_ns;
	u64 seq;
	enum sim_event_kind kind;
	u32 arg;
	struct sim_io *io;
};

/* --- random numbers: splitmix64 --- */

void sim_rand_seed(struct sim_rand *r, u64 seed)
{
	r->state = seed;
}

u64 sim_rand_next(struct sim_rand *r)
{
	u64 z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

u64 sim_rand_range(struct sim_rand *r, u64 lo, u64 hi)
{
	return hi > lo ? lo + sim_rand_next(r) % (hi - lo + 1) : lo;
}

u64 sim_rand_log(struct sim_rand *r, u64 lo, u64 hi)
{
	u32 doublings = 0;

	while (lo << (doublings + 1) <= hi)
		doublings++;
	lo <<= sim_rand_range(r, 0, doublings);
	return sim_rand_range(r, lo, min(lo * 2 - 1, hi));
}

u64 sim_rand_jitter(struct sim_rand *r, u64 mean, u32 pct)
{
	u64 half = mean * pct / 100;

	return half ? sim_rand_range(r, mean - half, mean + half) : mean;
}

/* --- events: a binary heap by time, then by order of creation --- */

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void add_event(struct sim *s, u64 at_ns, enum sim_event_kind kind,
		      u32 arg, struct sim_io *io)
{
	struct sim_event e = { at_ns, s->event_seq++, kind, arg, io };
	u32 i = s->nr_events++;

	if (s->nr_events > s->max_events) {
		s->max_events = s->max_events ? s->max_events * 2 : 64;
		s->events = realloc(s->events,
				    s->max_events * sizeof(*s->events));
		assert(s->events);
	}
	for (; i && event_before(&e, &s->events[(i - 1) / 2]); i = (i - 1) / 2)
		s->events[i] = s->events[(i - 1) / 2];
	s->events[i] = e;
}

static struct sim_event next_event(struct sim *s)
{
	struct sim_event top = s->events[0];
	struct sim_event last = s->events[--s->nr_events];
	u32 i = 0, child;

	while ((child = 2 * i + 1) < s->nr_events) {
		if (child + 1 < s->nr_events &&
		    event_before(&s->events[child + 1], &s->events[child]))
			child++;
		if (!event_before(&s->events[child], &last))
			break;
		s->events[i] = s->events[child];
		i = child;
	}
	s->events[i] = last;
	return top;
}

/* --- the disk --- */

static void disk_start(struct sim *s, struct sim_io *io)
{
	const struct sim_disk *d = &s->cfg.disk;
	u64 t = io->req.dir == IOBAND_WRITE && d->write_ns ? d->write_ns :
							     d->read_ns;

	if (d->bytes_per_sec)
		t += (u64)io->req.sectors * SECTOR_BYTES * NSEC_PER_SEC /
		     d->bytes_per_sec;
	if (d->change_ns && s->now_ns >= d->change_ns)
		t = t * d->change_pct / 100;
	t = sim_rand_jitter(&s->rand, t, d->jitter_pct);
	s->disk_busy++;
	add_event(s, s->now_ns + max_t(u64, t, 1), EV_COMPLETE, 0, io);
}

static void disk_submit(struct sim *s, struct sim_io *io)
{
	s->in_flight++;
	io->next = NULL;
	if (s->disk_busy < s->cfg.disk.servers) {
		disk_start(s, io);
		return;
	}
	*s->disk_tail = io;
	s->disk_tail = &io->next;
}

static void disk_complete(struct sim *s)
{
	struct sim_io *io = s->disk_head;

	s->in_flight--;
	s->disk_busy--;
	if (!io)
		return;
	s->disk_head = io->next;
	if (!s->disk_head)
		s->disk_tail = &s->disk_head;
	disk_start(s, io);
}

/* --- the driver --- */

#define WATCH(s, fn, ...) do {					\
	if ((s)->cfg.watch && (s)->cfg.watch->fn)		\
		(s)->cfg.watch->fn(s, ##__VA_ARGS__);		\
} while (0)

static void count_lost(struct sim *s)
{
	s->lost_ns += (s->now_ns - s->idle_since_ns) * s->idle_slots;
	s->idle_since_ns = s->now_ns;
	s->idle_slots = 0;
}

/* Nobody is kept waiting for want of room any more. */
static void settle(struct sim *s)
{
	if (!ioband_wants_room(&s->sched) && s->in_flight < s->cfg.depth)
		s->contended = false;
}

static void dispatch(struct sim *s)
{
	struct ioband_req *r;
	u64 until_ns;

	count_lost(s);
	while ((r = ioband_peek(&s->sched, s->in_flight, s->now_ns,
				&until_ns))) {
		struct sim_io *io = container_of(r, struct sim_io, req);
		struct sim_group *g = &s->groups[io->group];
		u64 tag = g->share.tag;

		WATCH(s, before_take, io);
		ioband_take(&g->share, r, s->now_ns);
		g->taken += io->tokens;
		g->wait_ns = max(g->wait_ns, s->now_ns - r->held_ns);
		disk_submit(s, io);
		WATCH(s, take, io, tag);
	}
	if (ioband_wants_room(&s->sched) && s->in_flight < s->cfg.depth)
		s->idle_slots = s->cfg.depth - s->in_flight;
	settle(s);
	/* Timers that were overtaken by a later setting fire for nothing. */
	s->timer_ns = until_ns;
	if (until_ns)
		add_event(s, max(until_ns, s->now_ns), EV_TIMER, 0, NULL);
	WATCH(s, settled, until_ns);
}

static void kick_worker(struct sim *s)
{
	if (!s->cfg.dispatch_ns) {
		dispatch(s);
	} else if (!s->worker) {
		s->worker = true;
		add_event(s, s->now_ns + s->cfg.dispatch_ns, EV_WORKER, 0,
			  NULL);
	}
}

static void go_straight(struct sim *s, struct sim_io *io)
{
	io->req.sent_ns = 0;
	s->groups[io->group].passed += io->tokens;
	disk_submit(s, io);
	WATCH(s, straight, io);
}

static bool goes_straight(const struct sim *s, const struct sim_group *g)
{
	if (s->cfg.no_control || !g->share.active)
		return true;
	return s->in_flight < s->cfg.depth && !ioband_wants_room(&s->sched) &&
	       !ioband_share_limited(&g->share);
}

/* Charge for what went straight until the others began to wait. */
static void fold(struct sim *s, u32 group)
{
	struct sim_group *g = &s->groups[group];
	u64 tokens = g->straight, tag = g->share.tag;

	if (g->folded == s->period)
		return;
	g->folded = s->period;
	g->straight = 0;
	ioband_charge(&g->share, tokens);
	WATCH(s, fold, group, tokens, tag);
}

static void submit(struct sim *s, struct sim_io *io)
{
	struct sim_group *g = &s->groups[io->group];

	g->submitted += io->tokens;
	s->outstanding++;
	if (io->urgent && !s->cfg.no_control && g->share.active) {
		go_straight(s, io);
		ioband_charge_debt(&g->share, &io->req, s->now_ns);
		WATCH(s, debt, io);
		dispatch(s);
		return;
	}
	if (goes_straight(s, g)) {
		if (g->share.active)
			g->straight += io->tokens;
		go_straight(s, io);
		return;
	}
	/* A limit alone isn't a reason for the others to queue up. */
	if (!s->contended &&
	    (s->in_flight >= s->cfg.depth || ioband_wants_room(&s->sched))) {
		s->contended = true;
		s->period++;
	}
	fold(s, io->group);
	WATCH(s, before_hold, io);
	ioband_hold(&g->share, &io->req, s->now_ns);
	WATCH(s, hold, io);
	dispatch(s);
}

/* --- the loads --- */

/* When load @l may send again, at @at_ns or later; 0 for never. */
static u64 next_chance(const struct sim_load *l, u64 at_ns)
{
	u64 phase;

	at_ns = max(at_ns, l->start_ns);
	if (l->off_ns) {
		phase = (at_ns - l->start_ns) % (l->on_ns + l->off_ns);
		if (phase >= l->on_ns)
			at_ns += l->on_ns + l->off_ns - phase;
	}
	return l->stop_ns && at_ns >= l->stop_ns ? 0 : at_ns;
}

static void make_io(struct sim *s, u32 load)
{
	const struct sim_load *l = &s->cfg.loads[load];
	struct sim_io *io = calloc(1, sizeof(*io));
	u32 lo = l->min_sectors ?: 8;

	assert(io);
	io->load = load;
	io->group = l->group;
	io->req.sectors = sim_rand_range(&s->rand, lo,
					 max(lo, l->max_sectors));
	io->submit_ns = s->now_ns;
	io->req.ios = sim_rand_range(&s->rand, 1, l->max_ios);
	io->tokens = s->sched.policy->cost(io->req.sectors, io->req.ios);
	io->req.dir = sim_rand_range(&s->rand, 0, 99) < l->write_pct;
	io->req.prio = l->prio;
	if (l->prios)
		io->req.prio += sim_rand_range(&s->rand, 0, l->prios - 1);
	io->req.sync = l->kind == SIM_READERS;
	io->urgent = l->urgent_pct &&
		     sim_rand_range(&s->rand, 0, 99) < l->urgent_pct;
	s->load_out[load]++;
	submit(s, io);
}

/* The load's reader or queue slot sends again after @wait_ns. */
static void schedule_submit(struct sim *s, u32 load, u64 wait_ns)
{
	u64 at = next_chance(&s->cfg.loads[load], s->now_ns + wait_ns);

	if (at && !s->stopping)
		add_event(s, at, EV_SUBMIT, load, NULL);
}

static void schedule_open(struct sim *s, u32 load)
{
	const struct sim_load *l = &s->cfg.loads[load];
	u64 at = s->now_ns + sim_rand_jitter(&s->rand, l->think_ns,
					     l->think_jitter_pct);

	at = next_chance(l, max(at, s->now_ns + 1));
	if (at && !s->stopping)
		add_event(s, at, EV_OPEN, load, NULL);
}

static u64 think(struct sim *s, const struct sim_load *l)
{
	if (l->kind == SIM_QUEUE)
		return 0;
	if (l->pause_pct && sim_rand_range(&s->rand, 0, 99) < l->pause_pct)
		return l->pause_ns;
	return sim_rand_jitter(&s->rand, l->think_ns, l->think_jitter_pct);
}

static void complete(struct sim *s, struct sim_io *io)
{
	struct sim_group *g = &s->groups[io->group];
	const struct sim_load *l = &s->cfg.loads[io->load];

	disk_complete(s);
	s->outstanding--;
	s->load_out[io->load]--;
	g->done += io->tokens;
	g->ios++;
	g->bytes[io->req.dir] += (u64)io->req.sectors * SECTOR_BYTES;
	if (io->req.sent_ns) {
		s->busy_ns += s->now_ns - io->req.sent_ns;
		s->max_service_ns = max(s->max_service_ns,
					s->now_ns - io->req.sent_ns);
	}
	if (!s->cfg.no_control) {
		ioband_done(&g->share, &io->req, s->now_ns);
		WATCH(s, done, io);
		settle(s);
		kick_worker(s);
	}
	if (l->kind != SIM_OPEN)
		schedule_submit(s, io->load, think(s, l));
	free(io);
}

static void set_claim(struct sim *s, u32 group)
{
	const struct ioband_claim claim = {
		.weight		= s->cfg.weights[group],
		.min_bps	= s->cfg.min_bps[group],
		.max_bps	= s->cfg.max_bps[group],
	};

	ioband_share_set_claim(&s->groups[group].share, &claim, s->now_ns);
}

static void set_limits(struct sim *s, u32 group)
{
	ioband_share_set_limits(&s->groups[group].share, s->cfg.rates[group],
				s->cfg.burst_ns[group] ?: IOBAND_BURST_NS,
				s->now_ns);
}

static void set_parent(struct sim *s, u32 group)
{
	u32 p = s->cfg.parents[group];

	ioband_share_set_parent(&s->groups[group].share,
				p ? &s->groups[p - 1].share : NULL, s->now_ns);
}

static void suspend(struct sim *s, u32 group)
{
	struct ioband_share *g = &s->groups[group].share;
	struct ioband_req *r;

	while ((r = ioband_drain(g)))
		go_straight(s, container_of(r, struct sim_io, req));
	ioband_share_deactivate(g);
}

static void set_policy(struct sim *s, const struct ioband_policy *p)
{
	u32 i;

	ioband_sched_set_policy(&s->sched, p);
	for (i = 0; i < s->cfg.nr_groups; i++)
		set_claim(s, i);
}

static void change(struct sim *s, const struct sim_change *c)
{
	u32 g = c->group, old = s->groups[g].share.weight;

	WATCH(s, before_change, c);
	switch (c->kind) {
	case SIM_WEIGHT:
		s->cfg.weights[g] = c->number;
		set_claim(s, g);
		WATCH(s, reweigh, g, old);
		break;
	case SIM_RANGE:
		s->cfg.min_bps[g] = c->min_bps;
		s->cfg.max_bps[g] = c->max_bps;
		set_claim(s, g);
		break;
	case SIM_LIMITS:
		memcpy(s->cfg.rates[g], c->rates, sizeof(c->rates));
		s->cfg.burst_ns[g] = c->burst_ns;
		set_limits(s, g);
		break;
	case SIM_PARENT:
		s->cfg.parents[g] = c->number;
		set_parent(s, g);
		break;
	case SIM_POLICY:
		set_policy(s, c->policy);
		break;
	case SIM_DEPTH:
		s->cfg.depth = c->number;
		ioband_sched_set_depth(&s->sched, c->number);
		break;
	case SIM_BURST:
		s->sched.token_base = c->number;
		break;
	case SIM_SUSPEND:
		suspend(s, g);
		break;
	case SIM_RESUME:
		ioband_share_activate(&s->groups[g].share);
		break;
	}
	WATCH(s, change, c);
	dispatch(s);
}

static void handle(struct sim *s, const struct sim_event *e)
{
	switch (e->kind) {
	case EV_SUBMIT:
		make_io(s, e->arg);
		break;
	case EV_OPEN:
		if (s->load_out[e->arg] < s->cfg.loads[e->arg].n)
			make_io(s, e->arg);
		schedule_open(s, e->arg);
		break;
	case EV_COMPLETE:
		complete(s, e->io);
		break;
	case EV_WORKER:
		s->worker = false;
		dispatch(s);
		break;
	case EV_TIMER:
		if (s->timer_ns && s->now_ns >= s->timer_ns) {
			s->timer_ns = 0;
			kick_worker(s);
		}
		break;
	case EV_CHANGE:
		change(s, &s->cfg.changes[e->arg]);
		break;
	}
}

/* --- a run --- */

struct sim *sim_new(const struct sim_config *cfg)
{
	struct sim *s = calloc(1, sizeof(*s));
	u32 i, j;

	assert(s);
	assert(cfg->nr_groups <= SIM_MAX_GROUPS);
	assert(cfg->nr_loads <= SIM_MAX_LOADS);
	s->cfg = *cfg;
	s->disk_tail = &s->disk_head;
	/* A time of 0 means "not yet" to the core; no clock shows it. */
	s->now_ns = cfg->start_ns ?: NSEC_PER_MSEC;
	sim_rand_seed(&s->rand, cfg->seed);
	ioband_sched_init(&s->sched, cfg->policy ?: ioband_policy_next(NULL),
			  cfg->depth);
	s->sched.token_base = cfg->token_base;
	s->sched.carryover = cfg->carryover;
	s->sched.root.tag = cfg->first_tag;
	s->sched.root.span_tag = cfg->first_tag;
	s->sched.round_tag = cfg->first_tag;
	for (i = 0; i < cfg->nr_groups; i++) {
		ioband_share_init(&s->groups[i].share, &s->sched, SIM_LARGEST,
				  1);
		ioband_share_activate(&s->groups[i].share);
	}
	for (i = 0; i < cfg->nr_groups; i++) {
		set_parent(s, i);
		set_claim(s, i);
		set_limits(s, i);
	}
	for (i = 0; i < cfg->nr_changes; i++)
		add_event(s, cfg->changes[i].at_ns, EV_CHANGE, i, NULL);
	for (i = 0; i < cfg->nr_loads; i++) {
		if (cfg->loads[i].kind == SIM_OPEN) {
			schedule_open(s, i);
			continue;
		}
		/* Not all in the same nanosecond. */
		for (j = 0; j < cfg->loads[i].n; j++)
			schedule_submit(s, i, j * 100 + i);
	}
	return s;
}

void sim_run(struct sim *s, u64 until_ns)
{
	while (s->nr_events && s->events[0].at_ns <= until_ns) {
		struct sim_event e = next_event(s);

		s->now_ns = max(s->now_ns, e.at_ns);
		handle(s, &e);
		WATCH(s, step);
	}
}

void sim_finish(struct sim *s, u64 until_ns)
{
	u32 i, kept = 0;
	u32 nr = s->nr_events;

	s->stopping = true;
	/* A part of a heap is added again one by one to be a heap. */
	s->nr_events = 0;
	for (i = 0; i < nr; i++) {
		struct sim_event e = s->events[i];

		if (e.kind == EV_SUBMIT || e.kind == EV_OPEN)
			continue;
		s->events[kept++] = e;
	}
	for (i = 0; i < kept; i++) {
		struct sim_event e = s->events[i];

		add_event(s, e.at_ns, e.kind, e.arg, e.io);
	}
	sim_run(s, until_ns);
}

void sim_reset_counts(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++) {
		s->groups[i].taken = 0;
		s->groups[i].passed = 0;
		s->groups[i].submitted = 0;
		s->groups[i].done = 0;
		s->groups[i].ios = 0;
		memset(s->groups[i].bytes, 0, sizeof(s->groups[i].bytes));
		s->groups[i].wait_ns = 0;
	}
	s->busy_ns = 0;
	s->lost_ns = 0;
}

/* What is still held or in flight is freed, too: a test may stop anywhere. */
void sim_free(struct sim *s)
{
	struct ioband_req *r;
	struct sim_io *io;
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++)
		while ((r = ioband_drain(&s->groups[i].share)))
			free(container_of(r, struct sim_io, req));
	while ((io = s->disk_head)) {
		s->disk_head = io->next;
		free(io);
	}
	for (i = 0; i < s->nr_events; i++)
		free(s->events[i].io);
	free(s->events);
	free(s);
}

u32 sim_share_index(const struct sim *s, const struct ioband_share *g)
{
	return container_of(g, struct sim_group, share) - s->groups;
}
