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

static void to_disk(struct sim *s, struct sim_io *io, u64 delay_ns)
{
	io->disk.sectors = io->req.sectors;
	io->disk.write = io->req.dir == IOBAND_WRITE;
	s->in_flight += io->req.ios;
	if (disk_submit(&s->disk, &io->disk, s->now_ns + delay_ns))
		add_event(s, io->disk.done_ns, EV_COMPLETE, 0, io);
}

static void from_disk(struct sim *s, const struct sim_io *io)
{
	struct disk_io *next = disk_complete(&s->disk, s->now_ns);

	s->in_flight -= io->req.ios;
	if (next)
		add_event(s, next->done_ns, EV_COMPLETE, 0,
			  container_of(next, struct sim_io, disk));
}

/*
 * --- the driver ---
 *
 * Step by step what dm-ioband.c does, by the names there: what goes without
 * asking, what the core is told of and when.
 */

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

static bool has_room(const struct sim *s, u32 ios)
{
	return s->in_flight < s->depth &&
	       (s->in_flight + ios <= s->limit || !s->in_flight);
}

static struct ioband_req *peek(struct sim *s, u64 *until_ns)
{
	struct ioband_req *r;

	count_lost(s);
	r = ioband_peek(&s->sched, s->in_flight, s->now_ns, until_ns);
	if (!r && ioband_wants_room(&s->sched) &&
	    s->in_flight < s->sched.depth)
		s->idle_slots = s->sched.depth - s->in_flight;
	return r;
}

/* Send the next I/O, if any may go. */
static bool send_next(struct sim *s)
{
	u64 until_ns, tag;
	struct ioband_req *r = peek(s, &until_ns);
	struct sim_group *g;
	struct sim_io *io;

	if (!r || !has_room(s, r->ios))
		return false;
	io = container_of(r, struct sim_io, req);
	g = &s->groups[io->group];
	tag = g->share.tag;
	WATCH(s, before_take, io);
	ioband_take(&g->share, r, s->now_ns);
	g->taken += io->tokens;
	g->wait_ns = max(g->wait_ns, s->now_ns - r->held_ns);
	to_disk(s, io, s->cfg.send_ns);
	WATCH(s, take, io, tag);
	return true;
}

static void contend(struct sim *s)
{
	if (s->contended)
		return;
	s->contended = true;
	s->period++;
}

static void work(struct sim *s);

static void kick(struct sim *s)
{
	if (s->worker)
		return;
	s->worker = true;
	if (s->cfg.dispatch_ns)
		add_event(s, s->now_ns + s->cfg.dispatch_ns, EV_WORKER, 0,
			  NULL);
	else
		work(s);
}

static void wake(struct sim *s)
{
	struct ioband_req *r;
	u64 until_ns;

	if (s->worker)
		return;
	if (s->sched.held)
		contend(s);
	r = peek(s, &until_ns);
	if (r && has_room(s, r->ios)) {
		kick(s);
		return;
	}
	if (!r && until_ns) {
		/* Timers that were overtaken by a later one fire for nothing. */
		s->timer_ns = until_ns;
		add_event(s, max(until_ns, s->now_ns), EV_TIMER, 0, NULL);
	}
	if (!ioband_watches(&s->sched, s->in_flight))
		s->contended = false;
	WATCH(s, settled, r, until_ns);
}

static void work(struct sim *s)
{
	while (send_next(s))
		;
	s->worker = false;
	wake(s);
}

static void go_straight(struct sim *s, struct sim_io *io)
{
	io->req.sent_ns = 0;
	s->groups[io->group].passed += io->tokens;
	to_disk(s, io, 0);
	WATCH(s, straight, io);
}

static void follow(struct sim *s)
{
	s->depth = s->sched.depth;
}

static bool is_another(const struct sim *s, const struct sim_group *g)
{
	const struct ioband_share *lone = ioband_alone(&s->sched);

	return lone && lone != &g->share;
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
	if (!tokens)
		return;
	ioband_charge(&g->share, tokens);
	WATCH(s, fold, group, tokens, tag);
}

static void map_contended(struct sim *s, struct sim_io *io)
{
	struct sim_group *g = &s->groups[io->group];

	fold(s, io->group);
	if (io->urgent || !g->share.active) {
		go_straight(s, io);
		if (g->share.active) {
			ioband_charge_debt(&g->share, &io->req, s->now_ns);
			follow(s);
			WATCH(s, debt, io);
		}
	} else {
		WATCH(s, before_hold, io);
		ioband_hold(&g->share, &io->req, s->now_ns);
		follow(s);
		WATCH(s, hold, io);
		send_next(s);
	}
	if (s->sched.held)
		wake(s);
}

static void submit(struct sim *s, struct sim_io *io)
{
	struct sim_group *g = &s->groups[io->group];

	g->submitted += io->tokens;
	s->outstanding++;
	if (s->cfg.no_control) {
		go_straight(s, io);
	} else if (s->contended || ioband_share_limited(&g->share) ||
		   is_another(s, g) ||
		   (!io->urgent && !has_room(s, io->req.ios))) {
		map_contended(s, io);
	} else {
		g->straight += io->tokens;
		go_straight(s, io);
	}
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

	from_disk(s, io);
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
	if (s->contended || io->req.sent_ns) {
		ioband_done(&g->share, &io->req, s->now_ns);
		WATCH(s, done, io);
		follow(s);
		wake(s);
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

static void set_depth(struct sim *s)
{
	s->limit = max(s->cfg.limit ?: SIM_LIMIT_DEFAULT, s->cfg.depth);
	if (s->cfg.depth)
		ioband_sched_set_depth(&s->sched, s->cfg.depth);
	else
		ioband_sched_find_depth(&s->sched, s->limit);
	follow(s);
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
		set_depth(s);
		break;
	case SIM_LIMIT:
		s->cfg.limit = c->number;
		set_depth(s);
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
	wake(s);
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
		work(s);
		break;
	case EV_TIMER:
		if (s->timer_ns && s->now_ns >= s->timer_ns) {
			s->timer_ns = 0;
			kick(s);
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
	/* A time of 0 means "not yet" to the core; no clock shows it. */
	s->now_ns = cfg->start_ns ?: NSEC_PER_MSEC;
	sim_rand_seed(&s->rand, cfg->seed);
	ioband_sched_init(&s->sched, cfg->policy ?: ioband_policy_next(NULL), 1);
	set_depth(s);
	disk_init(&s->disk, &cfg->disk, &s->rand);
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
	struct disk_io *io, *next;
	u32 i;

	for (i = 0; i < s->cfg.nr_groups; i++)
		while ((r = ioband_drain(&s->groups[i].share)))
			free(container_of(r, struct sim_io, req));
	for (io = s->disk.head; io; io = next) {
		next = io->next;
		free(container_of(io, struct sim_io, disk));
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
